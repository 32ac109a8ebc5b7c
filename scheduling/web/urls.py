"""The addresses of the pages."""

from __future__ import annotations

from django.contrib.auth import views as auth
from django.urls import path, re_path, reverse_lazy

from scheduling.web import (
    account,
    artifacts,
    board,
    job,
    job_log,
    jobs,
    leaderboard,
    lineage,
    nodes,
    notices,
    share,
    submit,
)

urlpatterns = [
    path("", board.board, name="board"),
    path("silence/confirm/", nodes.confirm_silence, name="silence-confirm"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/new/", submit.submit, name="submit"),
    path("jobs/new/plan/", submit.plan, name="submit-plan"),
    path("jobs/new/evolve/", submit.submit, {"kind": "evolve"}, name="submit-evolve"),
    path("jobs/new/evolve/plan/", submit.plan, {"kind": "evolve"}, name="submit-evolve-plan"),
    path("jobs/new/evaluate/", submit.submit, {"kind": "evaluate"}, name="submit-evaluate"),
    path("jobs/new/evaluate/plan/", submit.plan, {"kind": "evaluate"}, name="submit-evaluate-plan"),
    path("jobs/new/infer/", submit.submit, {"kind": "infer"}, name="submit-infer"),
    path("jobs/new/infer/plan/", submit.plan, {"kind": "infer"}, name="submit-infer-plan"),
    path("jobs/new/command/", submit.submit, {"kind": "command"}, name="submit-command"),
    path("jobs/new/command/plan/", submit.plan, {"kind": "command"}, name="submit-command-plan"),
    path("jobs/ids/", jobs.ids, name="jobs-ids"),
    path("jobs/export.csv", jobs.export, name="jobs-export"),
    path("jobs/cancel/", jobs.cancel_many, name="jobs-cancel"),
    path("jobs/<uuid:job_id>/", job.job, name="job"),
    path("jobs/<uuid:job_id>/log/", job_log.log, name="job-log"),
    path("jobs/<uuid:job_id>/log.txt", job_log.log_file, name="job-log-file"),
    path("jobs/<uuid:job_id>/retry/", job.retry, name="job-retry"),
    re_path(r"^jobs/(?P<job_id>[0-9a-f-]{36})/(?P<verb>cancel|force|hold|release)/$", job.act, name="job-act"),
    path("nodes/<str:name>/", nodes.node, name="node"),
    path("nodes/<str:name>/<str:verb>/", nodes.operate, name="node-operate"),
    path("nodes/<str:name>/gpus/<str:uuid>/<str:verb>/", nodes.operate_gpu, name="gpu-operate"),
    path("share/", share.share, name="share"),
    path("artifacts/", artifacts.artifacts, name="artifacts"),
    path("artifacts/leaderboard/", leaderboard.leaderboard, name="leaderboard"),
    path("artifacts/leaderboard.csv", leaderboard.export, name="leaderboard-export"),
    path("artifacts/<uuid:artifact_id>/", artifacts.artifact, name="artifact"),
    path("artifacts/<uuid:artifact_id>/lineage/", lineage.lineage, name="artifact-lineage"),
    re_path(
        r"^artifacts/(?P<artifact_id>[0-9a-f-]{36})/(?P<verb>delete|restore|unname)/$",
        artifacts.act,
        name="artifact-act",
    ),
    path("account/", account.account, name="account"),
    path("account/tokens/", account.make_token, name="token-make"),
    path("account/tokens/<str:token_id>/revoke/", account.revoke, name="token-revoke"),
    path("account/notices/", notices.choose, name="notices-choose"),
    path("account/notices/test/", notices.test_mail, name="notices-test"),
    path("account/webhooks/", notices.make, name="webhook-make"),
    path("account/webhooks/<uuid:webhook_id>/", notices.webhook, name="webhook"),
    path(
        "account/webhooks/<uuid:webhook_id>/deliveries/<uuid:delivery_id>/redeliver/",
        notices.redeliver,
        name="webhook-redeliver",
    ),
    re_path(
        r"^account/webhooks/(?P<webhook_id>[0-9a-f-]{36})/(?P<verb>change|secret|test|on|off|remove)/$",
        notices.act,
        name="webhook-act",
    ),
    path(
        "account/password/",
        auth.PasswordChangeView.as_view(template_name="account_password.html", success_url=reverse_lazy("account")),
        name="password_change",
    ),
    path("login/", auth.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
]
