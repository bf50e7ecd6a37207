"""Settings: everything Dayflow reads from the environment, in one place.

Each field's alias is the variable's name. Values are read when `load()` is called, never at import.
"""

import difflib
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import platformdirs
import tzlocal
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from domain import agent, errors, retention
from domain.compaction import Summariser
from domain.retention import Ages
from domain.wording import plain
from store import crash, seal
from store.seal import Seal

SAMPLES = Path(__file__).resolve().parent.parent / "sandbox" / "samples"
HIGHEST_PORT = 65535
# A payload in a history is never larger: the server takes none over 2 MB, and no 4 MB in one workflow task.
LARGEST_IN_HISTORY = 1_000_000
# The one mailbox of the sandbox. No secret: it is on loopback, and holds what Dayflow itself sent.
SANDBOX_MAIL_USER = "dayflow@example.com"
SANDBOX_MAIL_PASSWORD = "sandbox"


class Settings(BaseSettings):
    """One home of Dayflow: where its state lives and whom it talks to."""

    model_config = SettingsConfigDict(extra="ignore", frozen=True, env_ignore_empty=True)

    home: Path = Field(Path(platformdirs.user_state_dir("dayflow")), alias="DAYFLOW_HOME", description="state folder")
    port: int = Field(7233, alias="DAYFLOW_PORT", ge=1, le=65535, description="embedded Temporal server (gRPC)")
    ui_port: int = Field(8233, alias="DAYFLOW_UI_PORT", ge=1, le=65535, description="embedded Temporal web UI")
    sandbox_port: int = Field(8234, alias="DAYFLOW_SANDBOX_PORT", ge=1, le=65535, description="the sandbox's HTTP port")
    sandbox_smtp: int | None = Field(
        None, alias="DAYFLOW_SANDBOX_SMTP_PORT", ge=0, le=65535, description="its SMTP port (default: the one after)"
    )
    sandbox_imap: int | None = Field(
        None, alias="DAYFLOW_SANDBOX_IMAP_PORT", ge=0, le=65535, description="its IMAP port (default: the next one)"
    )
    model: str | None = Field(None, alias="DAYFLOW_MODEL", description="model id for runs that name none")
    database_url: str | None = Field(
        None,
        alias="DAYFLOW_DATABASE_URL",
        description="SQLAlchemy URL of the store (default: a SQLite file in the home)",
    )
    payloads: Path | None = Field(
        None, alias="DAYFLOW_PAYLOADS", description="folder of large payloads (default: one in the home)"
    )
    payload_bytes: int = Field(
        256_000,
        alias="DAYFLOW_PAYLOAD_BYTES",
        ge=1_000,
        le=LARGEST_IN_HISTORY,
        description="payloads from this size on are kept there",
    )
    retention: Literal["on", "off"] = Field(
        "on", alias="DAYFLOW_RETENTION", description="whether what is old is deleted, each day"
    )
    keep_runs: int = Field(30, alias="DAYFLOW_KEEP_RUNS_DAYS", ge=0, description="days that a closed run is kept")
    keep_model_calls: int = Field(
        30, alias="DAYFLOW_KEEP_MODEL_CALLS_DAYS", ge=0, description="days that the ledger keeps an answer of the model"
    )
    keep_effects: int = Field(
        365, alias="DAYFLOW_KEEP_EFFECTS_DAYS", ge=1, description="days that the ledger keeps an effect and its key"
    )
    keep_memory_commits: int = Field(
        30, alias="DAYFLOW_KEEP_MEMORY_COMMITS_DAYS", ge=1, description="days that the memory store knows a call again"
    )
    keep_payloads: int = Field(
        30, alias="DAYFLOW_KEEP_PAYLOADS_DAYS", ge=1, description="days that a payload is kept which nothing refers to"
    )
    grace: int = Field(
        7, alias="DAYFLOW_GRACE_DAYS", ge=0, description="days in which `dayflow retention --keep` saves an old run"
    )
    exports: Path | None = Field(
        None, alias="DAYFLOW_EXPORTS", description="folder in which each deleted run leaves its export"
    )
    approvers: Path | None = Field(None, alias="DAYFLOW_APPROVERS", description="approvers file")
    events: int = Field(
        agent.EVENTS, alias="DAYFLOW_EVENTS", ge=30, le=10_000, description="events until a run continues as new"
    )
    compact_at: int | None = Field(
        None, alias="DAYFLOW_COMPACT_AT", ge=100, description="tokens that a transcript may have (default: the agent's)"
    )
    summariser: Summariser | None = Field(
        None, alias="DAYFLOW_SUMMARISER", description="who sums up: rules or model (default: the agent's)"
    )
    inbox: Path = Field(SAMPLES / "inbox", alias="DAYFLOW_INBOX", description="Maildir, mbox or folder of .eml files")
    calendar: Path = Field(SAMPLES / "calendar", alias="DAYFLOW_CALENDAR", description=".ics file or folder of them")
    sample_orders: Path = Field(
        SAMPLES / "orders.json", alias="DAYFLOW_SAMPLE_ORDERS", description="orders of the sandbox, where no key is set"
    )
    timezone_name: str | None = Field(None, alias="DAYFLOW_TIMEZONE", description="IANA zone (default: the system's)")
    encryption_keys: SecretStr | None = Field(
        None, alias="DAYFLOW_ENCRYPTION_KEYS", description="keys for histories and store, id:base64, the first encrypts"
    )
    codec_secret: SecretStr | None = Field(
        None,
        alias="DAYFLOW_CODEC_TOKEN",
        min_length=16,
        description="token of the codec server (default: made of the first key)",
    )
    codec: int | None = Field(
        None, alias="DAYFLOW_CODEC_PORT", ge=1, le=65535, description="its port (default: the sandbox's port + 3)"
    )
    crash_at: str | None = Field(None, alias="DAYFLOW_CRASH_AT", description="crash point, NAME or NAME:N (tests)")
    sandbox_script: Path | None = Field(
        None, alias="DAYFLOW_SANDBOX_SCRIPT", description="conversation the sandbox plays"
    )
    anthropic_api_key: SecretStr | None = Field(None, alias="ANTHROPIC_API_KEY", description="key of the Messages API")
    anthropic_base_url: str | None = Field(None, alias="ANTHROPIC_BASE_URL", description="address of the Messages API")

    stripe_api_key: SecretStr | None = Field(None, alias="STRIPE_API_KEY", description="key of the payment provider")
    stripe_base_url: str | None = Field(None, alias="STRIPE_BASE_URL", description="address of the payment provider")
    smtp_host: str | None = Field(None, alias="SMTP_HOST", description="mail server for sending")
    smtp_port: int = Field(587, alias="SMTP_PORT", ge=1, le=65535, description="its port")
    smtp_user: str | None = Field(None, alias="SMTP_USER", description="its user")
    smtp_password: SecretStr | None = Field(None, alias="SMTP_PASSWORD", description="its password")
    smtp_tls: Literal["starttls", "tls", "none"] = Field("starttls", alias="SMTP_TLS", description="how it is secured")
    mail_from: str = Field("dayflow@example.com", alias="MAIL_FROM", description="sender of mail")
    imap_host: str | None = Field(None, alias="IMAP_HOST", description="mail server for looking into Sent")
    imap_port: int = Field(993, alias="IMAP_PORT", ge=1, le=65535, description="its port")
    imap_user: str | None = Field(None, alias="IMAP_USER", description="its user")
    imap_password: SecretStr | None = Field(None, alias="IMAP_PASSWORD", description="its password")
    imap_tls: Literal["starttls", "tls", "none"] = Field("tls", alias="IMAP_TLS", description="how it is secured")
    imap_sent: str = Field("Sent", alias="IMAP_SENT", description="the folder of sent mail")

    @field_validator("home", "payloads", "exports", "inbox", "calendar", "sample_orders", "approvers", "sandbox_script")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return path.expanduser().absolute() if path else None

    @field_validator("timezone_name")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        return zone(name).key if name else None

    @field_validator("encryption_keys")
    @classmethod
    def _usable_keys(cls, keys: SecretStr | None) -> SecretStr | None:
        if keys is not None:
            seal.parse(keys.get_secret_value())
        return keys

    @field_validator("crash_at")
    @classmethod
    def _known_crash_point(cls, spec: str | None) -> str | None:
        if spec is not None:
            crash.parse(spec)
        return spec

    @property
    def seal(self) -> Seal:
        """What encrypts and decrypts; without keys it does neither."""
        return Seal(seal.parse(self.encryption_keys.get_secret_value()) if self.encryption_keys else {})

    @property
    def codec_token(self) -> str:
        """What a caller of the codec server has to send: of its own, else one that only holders of the keys know."""
        return self.codec_secret.get_secret_value() if self.codec_secret else self.seal.token("codec server")

    @property
    def codec_port(self) -> int:
        """Where the codec server answers."""
        return beside(self.sandbox_port, 3) if self.codec is None else self.codec

    @property
    def timezone(self) -> ZoneInfo:
        """The zone in which "today" is meant."""
        return ZoneInfo(self.timezone_name or tzlocal.get_localzone_name() or "UTC")

    @property
    def database(self) -> str:
        """SQLAlchemy URL of the one database."""
        return self.database_url or f"sqlite+aiosqlite:///{self.home / 'dayflow.sqlite'}"

    @property
    def blobs(self) -> Path:
        """The folder of everything that is too large for a history."""
        return self.payloads or self.home / "payloads"

    @property
    def ages(self) -> Ages:
        """For how many days each thing is kept."""
        return Ages(
            runs=self.keep_runs,
            model_calls=self.keep_model_calls,
            effects=self.keep_effects,
            memory_commits=self.keep_memory_commits,
            reports=retention.REPORTS,
            payloads=self.keep_payloads,
            grace=self.grace,
        )

    @property
    def sandbox_answers(self) -> bool:
        """Whether model calls go to the sandbox: no key and no address were given."""
        return not self.anthropic_api_key and not self.anthropic_base_url

    @property
    def sandbox_pays(self) -> bool:
        """Whether refunds go to the sandbox: no key and no address were given."""
        return not self.stripe_api_key and not self.stripe_base_url

    @property
    def sandbox_needed(self) -> bool:
        """Whether the sandbox stands in for anything."""
        return self.sandbox_answers or self.sandbox_pays or self.sandbox_mails

    @property
    def messages_url(self) -> str | None:
        """Base address of the Messages API; None is the SDK's own."""
        return self.anthropic_base_url or (self.sandbox_url if self.sandbox_answers else None)

    @property
    def sandbox_url(self) -> str:
        """Base address of the sandbox of this home."""
        return f"http://127.0.0.1:{self.sandbox_port}"

    @property
    def sandbox_mails(self) -> bool:
        """Whether mail goes to the sandbox: no mail server was given."""
        return self.smtp_host is None

    @property
    def sandbox_smtp_port(self) -> int:
        """Where the sandbox takes mail."""
        return beside(self.sandbox_port, 1) if self.sandbox_smtp is None else self.sandbox_smtp

    @property
    def sandbox_imap_port(self) -> int:
        """Where the sandbox shows mail."""
        return beside(self.sandbox_port, 2) if self.sandbox_imap is None else self.sandbox_imap


def beside(port: int, by: int) -> int:
    """The port so many after another one, or before it where the ports end. 0 stays: any free one."""
    if port == 0:
        return 0
    return port + by if port + by <= HIGHEST_PORT else port - by


def zone(name: str) -> ZoneInfo:
    """The time zone of that name; a ValueError that names the nearest where there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = difflib.get_close_matches(name, available_timezones(), 1) or ["Europe/Berlin"]
        raise ValueError(f"{name!r} is no IANA time zone, such as {near[0]}") from None


def load() -> Settings:
    """Read the environment; a bad value is an `errors.BadSetting` that names the variable."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        raise errors.BadSetting(str(first["loc"][0]), plain(first["msg"])) from None
