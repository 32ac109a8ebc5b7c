"""The one settings file. Everything a deployment may choose is an environment variable read here, by type.

Limits of scheduling are not settings: they are rows (queues, levels, weights) or ``core/policy.py``.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import environ
import structlog
from django.core.exceptions import ImproperlyConfigured

from emep_site import chores, outside, store_address

env = environ.Env()
BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.str("EMEP_DATA_DIR", default=str(BASE_DIR / "var"))).resolve()
TESTING = "pytest" in sys.modules


def number(name: str, default: float) -> float:
    """The number in an environment variable; what is none is refused by the variable's name."""
    given = env.str(name, default="")
    if not given:
        return default
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ImproperlyConfigured(f"{name} must be a number, not {given!r}")
    return value


def whole(name: str, default: int) -> int:
    """The whole number in an environment variable."""
    value = number(name, default)
    if value != int(value):
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value:g}")
    return int(value)


def _secret_key() -> str:
    """The signing key: from the environment, else one made once and kept in the data directory (mode 0600)."""
    if given := env.str("EMEP_SECRET_KEY", default=""):
        return str(given)
    kept = DATA_DIR / "secret_key"
    try:
        return _kept_secret(kept)
    except OSError as refused:
        raise ImproperlyConfigured(
            f"{DATA_DIR} can't be used ({refused.strerror}): choose another directory with EMEP_DATA_DIR"
        ) from refused


def _kept_secret(kept: Path) -> str:
    if not kept.exists():
        DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = kept.with_suffix(f".{secrets.token_hex(4)}")
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(48))
        with contextlib.suppress(FileExistsError):
            kept.hardlink_to(fresh)  # the first process to get here wins; the others read its key
        fresh.unlink()
    return kept.read_text().strip()


def _name_in(url: str) -> str:
    """The host of EMEP_URL, as a Host header has it; ImproperlyConfigured where it is no address of a web server."""
    try:
        parts = urlsplit(url)
        good, name = parts.scheme in ("http", "https") and (parts.port is None or parts.port > 0), parts.hostname
    except ValueError:
        good, name = False, None
    if not good or not name:
        raise ImproperlyConfigured(
            f"EMEP_URL must be an address like https://emep.example or http://head:8000, not {url!r}"
        )
    return f"[{name}]" if ":" in name else name


DEBUG = env.bool("EMEP_DEBUG", default=False)
SECRET_KEY = _secret_key()
HOST = env.str("EMEP_HOST", default="127.0.0.1")
PORT = whole("EMEP_PORT", 8000)
PUBLIC_URL = env.str("EMEP_URL", default=f"http://{HOST}:{PORT}").rstrip("/")
# Of nodes and of people each. A request at work has a database connection: the server of the database must allow twice
# this for each web process, and some for the scheduler and Celery.
REQUESTS_AT_WORK = whole("EMEP_REQUESTS_AT_WORK", 20)
if REQUESTS_AT_WORK < 1:
    raise ImproperlyConfigured(f"EMEP_REQUESTS_AT_WORK must be 1 or more, not {REQUESTS_AT_WORK}")
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", HOST]
if "EMEP_URL" in env:
    ALLOWED_HOSTS.append(_name_in(PUBLIC_URL))
ALLOWED_HOSTS += env.list("EMEP_ALLOWED_HOSTS", default=[])
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL.startswith("https://") else []
SECURE = PUBLIC_URL.startswith("https://")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "simple_history",
    "axes",
    "scheduling",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "emep_site.static_files.StaticFiles",
    "emep_site.headers.SecurityHeaders",
    "emep_site.body_limit.BodyLimit",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
    "emep_site.store_away.StoreAwayPages",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "emep_site.urls"
ASGI_APPLICATION = "emep_site.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# ------------------------------------------------------------------ database
_DATABASE_URL = env.str("DATABASE_URL", default="")
if _DATABASE_URL:
    known = _DATABASE_URL.startswith(("postgresql://", "postgres://", "sqlite://"))
    try:
        DATABASES = {"default": env.db_url("DATABASE_URL") if known else {}}
    except ValueError:  # a port that is no number, say; the text may hold a password, so it is not repeated
        DATABASES = {"default": {}}
    if not DATABASES["default"].get("NAME"):
        raise ImproperlyConfigured(
            "DATABASE_URL must be like postgresql://USER:PASSWORD@HOST:5432/NAME; "
            "leave it out for the embedded database"
        )
    if DATABASES["default"]["ENGINE"].endswith("postgresql"):
        # Each request has a thread of its own here, so a kept connection would only wait for its thread's end.
        DATABASES["default"] |= {"CONN_MAX_AGE": 0}
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA_DIR / "emep.sqlite3",
            # IMMEDIATE is what keeps concurrent writers from "database is locked"; WAL alone does not help.
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA journal_size_limit=67108864;",
            },
            # a file, since browser tests serve the pages from another process
            "TEST": {"NAME": str(DATA_DIR / "test.sqlite3")},
        }
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# ------------------------------------------------------------------ broker, Celery
BROKER_URL = env.str("EMEP_BROKER_URL", default="")
# No channel layer: the feed is woken by the database. With a layer every socket would subscribe at the broker first, so
# a broker that is away would take the live pages with it.
CELERY_BROKER_URL = BROKER_URL or "memory://"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_TIME_LIMIT = 900
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600, "socket_connect_timeout": 2, "socket_timeout": 10}
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "celerybeat-schedule")
CELERY_BEAT_SCHEDULE = chores.SCHEDULE

# ------------------------------------------------------------------ people, tokens
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "board"
LOGOUT_REDIRECT_URL = "login"
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = timedelta(minutes=5)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_TEMPLATE = "registration/locked.html"
AXES_RESET_ON_SUCCESS = True
AXES_ENABLED = not TESTING

MIGRATION_MODULES = {"knox": None}  # its token model is swapped for ours, so it has no table
KNOX_TOKEN_MODEL = "scheduling.ApiToken"  # noqa: S105  a model, no secret
REST_KNOX = {
    "AUTH_HEADER_PREFIX": "Bearer",
    "TOKEN_TTL": timedelta(days=90),
    "TOKEN_PREFIX": "emep_",
    "AUTO_REFRESH": False,
    "TOKEN_MODEL": "scheduling.ApiToken",
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "scheduling.api.access.BearerToken",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["scheduling.api.access.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "scheduling.api.problems.handle",
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_THROTTLE_RATES": {"submit": "120/min"},
}
SPECTACULAR_SETTINGS = {
    "TITLE": "EMEP",
    "DESCRIPTION": "Schedules GPU jobs for teams who merge, evolve, evaluate and serve models.",
    "VERSION": "1",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SERVE_PERMISSIONS": ["scheduling.api.access.SignedIn"],
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_NAME_OVERRIDES": {
        "DeliveryStateEnum": ["WAITING", "SENT", "FAILED", "DROPPED"],
        "WhatIfStateEnum": ["QUEUED", "RUNNING", "DONE", "FAILED", "CANCELLED"],
    },
}

# ------------------------------------------------------------------ web
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if TESTING or DEBUG
        else "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = TESTING or DEBUG
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_SSL_REDIRECT = False
SECURE_HSTS_SECONDS = 31_536_000 if SECURE else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# A JSON body or a form; artifact bytes are streamed past this limit.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2000

LANGUAGE_CODE = "en-gb"
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"
SILENCED_SYSTEM_CHECKS = ["security.W008", "security.W021"]

# ------------------------------------------------------------------ EMEP's own
ARTIFACT_DIR = Path(env.str("EMEP_ARTIFACT_DIR", default=str(DATA_DIR / "artifacts")))
# Artifacts are kept in that directory, or in this bucket: what is on its way to it lies in the directory nevertheless.
_STORE = store_address.read(
    *(env.str(f"EMEP_STORE_{name}", default="").strip() for name in ("URL", "ENDPOINT", "REGION", "PATH_STYLE"))
)
STORE_BUCKET, STORE_PREFIX = _STORE.bucket, _STORE.prefix
STORE_ENDPOINT, STORE_REGION, STORE_PATH_STYLE = _STORE.endpoint, _STORE.region, _STORE.path_style
# Scales every wait between server and agents (heartbeat 10 s, fence 45 s, lease 60 s, ...) together; tests use it.
TIME_SCALE = number("EMEP_TIME_SCALE", 1.0)
if not 0 < TIME_SCALE <= 10:
    raise ImproperlyConfigured("EMEP_TIME_SCALE must be above 0 and at most 10")
EMEP_BELL = "emep_site.bells"
TICK_S = number("EMEP_TICK_S", 2.0)
EVENT_RETENTION_DAYS = whole("EMEP_EVENT_RETENTION_DAYS", 90)
# A held GPU that does less than so many percent for so many minutes is told as idle in the reports.
IDLE_PERCENT = number("EMEP_IDLE_PERCENT", 5.0)
IDLE_MINUTES = number("EMEP_IDLE_MINUTES", 15.0)
if not 0 <= IDLE_PERCENT <= 100:
    raise ImproperlyConfigured(f"EMEP_IDLE_PERCENT must be from 0 to 100, not {IDLE_PERCENT:g}")
if not 1 <= IDLE_MINUTES <= 1440:
    raise ImproperlyConfigured(f"EMEP_IDLE_MINUTES must be from 1 to 1440, not {IDLE_MINUTES:g}")
# Replays of recent history: how long one may take, how many jobs it may have, and for how long it is kept.
WHAT_IF_LIMIT_S = number("EMEP_WHAT_IF_LIMIT_S", 600.0)
WHAT_IF_MAX_JOBS = whole("EMEP_WHAT_IF_MAX_JOBS", 50_000)
WHAT_IF_KEEP_DAYS = whole("EMEP_WHAT_IF_KEEP_DAYS", 90)
WHAT_IF_MAILBOX = "emep_site.what_ifs"
LOG_BYTES_PER_ATTEMPT = whole("EMEP_LOG_BYTES", 4 * 1024 * 1024)
MAX_ARTIFACT_BYTES = whole("EMEP_MAX_ARTIFACT_BYTES", 2 * 1024**4)
# What is kept for a while, and how long nobody must have needed bytes before they are removed.
CHECKPOINT_HOURS_AFTER_SUCCESS = whole("EMEP_CHECKPOINT_HOURS_AFTER_SUCCESS", 24)
CHECKPOINT_HOURS_AFTER_FAILURE = whole("EMEP_CHECKPOINT_HOURS_AFTER_FAILURE", 7 * 24)
UNPUBLISHED_HOURS = whole("EMEP_UNPUBLISHED_HOURS", 24)
COLLECTION_GRACE_HOURS = whole("EMEP_COLLECTION_GRACE_HOURS", 24)
# Within so many days stored bytes are read again, at most so many MB (10^6 bytes) a second; 0 days: never.
VERIFY_DAYS = whole("EMEP_VERIFY_DAYS", 30)
VERIFY_MB_S = number("EMEP_VERIFY_MB_S", 50.0)
if VERIFY_DAYS < 0:
    raise ImproperlyConfigured(f"EMEP_VERIFY_DAYS must be 1 or more, or 0 to read nothing by itself, not {VERIFY_DAYS}")
if VERIFY_MB_S <= 0:
    raise ImproperlyConfigured(f"EMEP_VERIFY_MB_S must be above 0, not {VERIFY_MB_S:g}")


# ------------------------------------------------------------------ notices
vars().update(outside.mail_server(env.str("EMEP_EMAIL_URL", default="")))
EMAIL_TIMEOUT = 20
EMAIL_IS_SENT = bool(env.str("EMEP_EMAIL_URL", default=""))
DEFAULT_FROM_EMAIL = outside.sender(
    env.str("EMEP_EMAIL_FROM", default=f"emep@{urlsplit(PUBLIC_URL).hostname or 'localhost'}")
)
# One e-mail a person in so many minutes, and none before what happened is so many seconds old: bursts come as one.
NOTICE_EVERY_MINUTES = number("EMEP_NOTICE_EVERY_MINUTES", 10.0)
NOTICE_JOIN_S = number("EMEP_NOTICE_JOIN_S", 30.0)
NOTICE_RETENTION_DAYS = whole("EMEP_NOTICE_RETENTION_DAYS", 30)
if min(NOTICE_EVERY_MINUTES, NOTICE_JOIN_S, NOTICE_RETENTION_DAYS - 1) < 0:
    raise ImproperlyConfigured(
        "EMEP_NOTICE_EVERY_MINUTES and EMEP_NOTICE_JOIN_S must be 0 or more, EMEP_NOTICE_RETENTION_DAYS 1 or more"
    )
# Where webhooks may lead: over https to port 443 of addresses in the Internet, and as far as an operator says more.
WEBHOOK_HTTP = env.bool("EMEP_WEBHOOK_HTTP", default=False)
_PORTS = ["443", "80"] if WEBHOOK_HTTP else ["443"]
WEBHOOK_PORTS = outside.ports("EMEP_WEBHOOK_PORTS", env.list("EMEP_WEBHOOK_PORTS", default=_PORTS))
WEBHOOK_NETWORKS = outside.networks("EMEP_WEBHOOK_NETWORKS", env.list("EMEP_WEBHOOK_NETWORKS", default=[]))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": structlog.stdlib.ProcessorFormatter,
            # Plain: the other formatters write out the local variables, and with them tokens and passwords.
            "processor": structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
            "foreign_pre_chain": [
                structlog.stdlib.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.str("EMEP_LOG_LEVEL", default="INFO")},
    "loggers": {
        "django.server": {"level": "WARNING"},
        "daphne": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "axes": {"level": "WARNING"},
        "botocore": {"level": "WARNING"},
    },
}
structlog.configure(
    processors=[
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
)
