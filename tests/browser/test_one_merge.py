"""A researcher signs in, submits a merge by the form, and watches it run and finish without a reload."""

from __future__ import annotations

from datetime import timedelta

from playwright.sync_api import expect

from scheduling.services import now, pool
from tests import builders as b
from tests.browser import world
from tests.browser.person import Person

expect.set_options(timeout=30_000)


def test_a_merge_is_submitted_by_the_form_and_watched_to_its_end(chromium, server):
    world.pool_with_models()
    alice = Person(chromium, server)
    page = alice.sign_in()
    page.get_by_role("link", name="Submit a job").click()
    page.get_by_label("Name", exact=True).fill("my merge")
    page.get_by_label("Model 1", exact=True).select_option(label=_starting(page, "digits-0-4"))
    page.get_by_label("Model 2", exact=True).select_option(label=_starting(page, "digits-5-9"))
    page.get_by_role("button", name="Submit the merge").click()
    page.wait_for_url("**/jobs/*-*/")
    state = page.locator("#job .title .state")
    expect(state).to_have_text("queued")
    page.evaluate("window.sameDocument = true")

    run = world.started()
    expect(state).to_have_text("running")
    world.told(run, "progress", step=3, total=12, unit="tensors", rate=0.5)
    world.told(run, "logs", offset=0, text="merged fc.weight\n")
    expect(page.locator("#job progress")).to_have_js_property("value", 25)
    expect(page.locator('[data-hook="eta"]')).to_contain_text("18 s left")
    expect(page.locator("#log")).to_contain_text("merged fc.weight")
    made = b.output(run, now=now())
    b.finished(run, artifacts=[made], now=now())
    expect(state).to_have_text("succeeded")
    expect(page.locator(".timeline")).to_contain_text("attempt 1 ended: SUCCEEDED")
    with page.expect_download() as download:
        page.get_by_role("link", name="model.safetensors").click()
    assert download.value.path().read_bytes() == b.tensors(9)
    assert page.evaluate("window.sameDocument") is True
    assert alice.complaints == []
    alice.leave()


def _starting(page, name):
    options = page.get_by_label("Model 1", exact=True).locator("option").all_text_contents()
    return next(o for o in options if o.startswith(name))


def test_every_error_of_the_form_is_shown_beside_its_field_and_the_values_stay(chromium, server):
    world.pool_with_models()
    alice = Person(chromium, server)
    page = alice.sign_in()
    page.goto(f"{server.url}/jobs/new/")
    page.get_by_label("GPUs", exact=True).fill("9")
    page.get_by_label("t", exact=True).fill("2")
    page.get_by_role("button", name="Submit the merge").click()
    expect(page.locator("#e_gpu_count")).to_contain_text("at most 4")
    expect(page.locator("#e_t")).to_contain_text("from 0")
    expect(page.locator("#e_models")).to_be_visible()
    expect(page.get_by_label("t", exact=True)).to_have_value("2")
    alice.leave()


def test_the_board_follows_a_job_without_a_reload(chromium, server):
    who, models = world.pool_with_models()
    alice = Person(chromium, server)
    page = alice.sign_in()
    tile = page.locator('[data-gpu="GPU-node-1-0"]')
    expect(tile).to_contain_text("free")
    page.evaluate("window.sameDocument = true")
    b.submitted(who, b.merge_body(models, name="seen-live"), now=now())
    expect(page.locator('[data-queue="merge"] [data-level="Normal"] [data-hook="waiting"]')).to_have_text("1")
    world.started()
    expect(tile.get_by_role("link", name="seen-live")).to_be_visible()
    world.sampled("node-1", 87.0)
    expect(tile.locator('[data-hook="load-text"]')).to_have_text("87 %")
    expect(page.locator("#headline")).to_contain_text("2 of 4 GPUs busy")
    assert page.evaluate("window.sameDocument") is True
    assert alice.complaints == []
    alice.leave()


def test_the_list_of_jobs_follows_its_rows_and_offers_new_ones(chromium, server):
    who, models = world.pool_with_models()
    job = b.submitted(who, b.merge_body(models, name="first"), now=now())
    alice = Person(chromium, server)
    page = alice.sign_in()
    page.goto(f"{server.url}/jobs/")
    world.started()
    expect(page.locator(f'tr[data-job="{job}"] .state')).to_have_text("running")
    b.submitted(who, b.merge_body(models, name="second"), now=now())
    page.locator("#fresh").get_by_role("link", name="Show").click()
    expect(page.get_by_role("link", name="second")).to_be_visible()
    page.get_by_label("Name or id").fill("second")
    expect(page.get_by_role("link", name="first")).to_have_count(0)
    page.wait_for_url("**/jobs/?q=second*")
    assert alice.complaints == []
    alice.leave()


def test_a_filtered_list_offers_only_jobs_that_match_and_are_new_to_it(chromium, server):
    who, models = world.pool_with_models()
    for name in ("old-1", "old-2"):
        b.submitted(who, b.merge_body(models, name=name), now=now())
    alice = Person(chromium, server)
    page = alice.sign_in()
    with page.expect_response("**/jobs/ids/?q=wanted*") as asked:  # the feed repeats old-1 and old-2
        page.goto(f"{server.url}/jobs/?q=wanted")
    assert asked.value.json() == {"jobs": []}
    b.submitted(who, b.merge_body(models, name="another"), now=now())
    b.submitted(who, b.merge_body(models, name="wanted"), now=now())
    expect(page.locator("#fresh")).to_contain_text("1 job has changed")
    page.locator("#fresh").get_by_role("link", name="Show").click()
    expect(page.get_by_role("link", name="wanted")).to_be_visible()
    expect(page.locator("#fresh")).to_be_hidden()
    assert alice.complaints == []
    alice.leave()


def test_the_board_shows_a_node_that_is_lost_as_it_happens(chromium, server):
    world.pool_with_models()
    world.sampled("node-1", 12.0)
    alice = Person(chromium, server)
    page = alice.sign_in()
    tile = page.locator('[data-gpu="GPU-node-1-0"]')
    expect(tile).to_contain_text("12 %")
    start = now()
    for seconds in range(0, 65, 5):
        pool.accepting(start + timedelta(seconds=seconds))
    b.ticked(start + timedelta(seconds=65))
    expect(tile).to_contain_text("unreachable")
    expect(tile).to_contain_text("its node is lost")
    expect(tile.locator('[data-hook="load-text"]')).to_have_text("–")
    expect(tile).not_to_contain_text("free")
    assert alice.complaints == []
    alice.leave()


def test_cancelling_asks_once_and_then_does_it(chromium, server):
    who, models = world.pool_with_models()
    job = b.submitted(who, b.merge_body(models), now=now())
    alice = Person(chromium, server)
    page = alice.sign_in()
    page.goto(f"{server.url}/jobs/{job}/")
    page.locator("#ask-cancel summary").click()
    expect(page.locator("#ask-cancel")).to_contain_text("no work is lost")
    page.get_by_role("button", name="Yes, cancel it").click()
    expect(page.locator("#job .title .state")).to_have_text("cancelled")
    alice.leave()


def test_a_researcher_does_not_see_another_projects_job_or_artifact(chromium, server):
    who, models = world.pool_with_models()
    job = b.submitted(who, b.merge_body(models, name="secret"), now=now())
    bob = Person(chromium, server)
    page = bob.sign_in("bob")
    for path in (f"/jobs/{job}/", f"/artifacts/{models[0]}/"):
        assert page.goto(f"{server.url}{path}").status == 404
        expect(page.get_by_role("heading", name="Not here")).to_be_visible()
    bob.leave()


def test_a_lost_socket_shows_a_stale_banner_and_recovers_what_was_missed(chromium, server):
    who, models = world.pool_with_models()
    job = b.submitted(who, b.merge_body(models), now=now())
    alice = Person(chromium, server)
    page = alice.sign_in()
    page.goto(f"{server.url}/jobs/{job}/")
    page.evaluate("window.sameDocument = true")
    server.stop()
    try:
        expect(page.locator("#stale")).to_contain_text("Stale since")
        run = world.started()
    finally:
        server.start()
    expect(page.locator("#job .title .state")).to_have_text("running")
    expect(page.locator("#stale")).to_be_hidden()
    b.finished(run, "FAILED", exit_code=3, error="boom", now=now())
    expect(page.locator("#job .title .state")).to_have_text("failed")
    assert page.evaluate("window.sameDocument") is True
    alice.leave()


def test_the_chart_of_a_search_grows_while_it_is_looked_at(chromium, server):
    who, _ = world.pool_with_models()
    run = world.searching(who, b.mlp(who, "net", sizes=(4, 3)), b.dataset(who, "tests"))
    alice = Person(chromium, server)
    page = alice.sign_in()
    page.goto(f"{server.url}/jobs/{run.job}/")
    page.evaluate("window.sameDocument = true")
    expect(page.locator("#search .chart")).to_have_count(0)
    for number, best in enumerate((0.5, 0.75)):
        world.generation(run, number, best, best / 2)
        expect(page.locator("#chart-says")).to_have_text(
            f"The best accuracy so far and the mean of each generation, up to generation {number}"
        )
    page.get_by_text("The numbers").click()
    world.generation(run, 2, 0.875, 0.5)
    expect(page.locator("#search-numbers tbody tr").first).to_have_text("20.8750.5")
    expect(page.locator("#search-numbers")).to_have_attribute("open", "")
    assert page.evaluate("window.sameDocument") is True
    b.finished(run, "FAILED", exit_code=3, error="boom", now=now())
    expect(page.locator("#job .title .state")).to_have_text("failed")
    alice.leave()
    assert alice.complaints == []


def test_a_recipe_from_a_file_is_read_into_the_form_mended_and_planned(chromium, server, tmp_path):
    world.pool_with_models()
    alice = Person(chromium, server)
    page = alice.sign_in()
    page.goto(f"{server.url}/jobs/new/")
    recipe = page.get_by_label("Recipe", exact=True)
    expect(recipe).to_be_hidden()
    page.get_by_role("radio", name="by a recipe mergekit").check()
    expect(page.get_by_label("Model 1", exact=True)).to_be_hidden()
    file = tmp_path / "mine.yaml"
    file.write_text(
        "merge_method: slurp\nmodels: [{model: digits-0-4}, {model: digits-5-9}]\nparameters: {t: [0, 2]}\n"
    )
    page.get_by_label("Or a file with it").set_input_files(file)
    expect(recipe).to_have_value(file.read_text())

    page.get_by_role("button", name="What would happen?").click()
    beside = page.locator("#e_recipe")
    expect(beside).to_contain_text("merge_method: there is no merge strategy 'slurp' (did you mean 'slerp'?)")
    expect(beside).to_contain_text("parameters.t[1]: t must be a number from 0")
    recipe.fill(file.read_text().replace("slurp", "slerp").replace("[0, 2]", "[{filter: bias, value: 1}, {value: 0}]"))
    page.get_by_role("button", name="What would happen?").click()
    expect(page.locator("#plan table")).to_contain_text("t = 1")
    expect(beside).to_have_count(0)
    page.get_by_role("button", name="Submit the merge").click()
    page.wait_for_url("**/jobs/*-*/")
    expect(page.locator("code.whole")).to_contain_text("merge_method: slerp")
    assert alice.complaints == []
    alice.leave()
