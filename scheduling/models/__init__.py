"""What is stored: fields, constraints, cheap properties. Written by ``store`` alone (policy: by the admin)."""

from scheduling.models.access import ApiToken, IdempotencyKey
from scheduling.models.after import Predecessor
from scheduling.models.allocations import Allocation, Attempt, AttemptNode, LogChunk, LostWork, MetricPoint
from scheduling.models.artifacts import Artifact, ArtifactParent, BlobCheck, JobOutput, ProjectBlob, UnusedBlob, Upload
from scheduling.models.events import Availability, Event, SchedulerState
from scheduling.models.fairshare import (
    Balance,
    BillingWeight,
    FairShareSettings,
    Level,
    Membership,
    PlanningSettings,
    PreemptionRule,
    Project,
    Queue,
    UsageDay,
)
from scheduling.models.jobs import Job
from scheduling.models.notices import Delivery, Notice, NoticeChoice, NoticeCursor, Webhook
from scheduling.models.pool import Gpu, Node, NodeLive
from scheduling.models.sets import JobSet
from scheduling.models.use import AttemptHour, IdleStretch, PoolHour
from scheduling.models.whatif import PolicyVersion, WhatIfRun
from scheduling.models.windows import Nomination, Window

__all__ = [
    "Allocation",
    "ApiToken",
    "Artifact",
    "ArtifactParent",
    "Attempt",
    "AttemptHour",
    "AttemptNode",
    "Availability",
    "Balance",
    "BillingWeight",
    "BlobCheck",
    "Delivery",
    "Event",
    "FairShareSettings",
    "Gpu",
    "IdempotencyKey",
    "IdleStretch",
    "Job",
    "JobOutput",
    "JobSet",
    "Level",
    "LogChunk",
    "LostWork",
    "Membership",
    "MetricPoint",
    "Node",
    "NodeLive",
    "Nomination",
    "Notice",
    "NoticeChoice",
    "NoticeCursor",
    "PlanningSettings",
    "PolicyVersion",
    "PoolHour",
    "Predecessor",
    "PreemptionRule",
    "Project",
    "ProjectBlob",
    "Queue",
    "SchedulerState",
    "UnusedBlob",
    "Upload",
    "UsageDay",
    "Webhook",
    "WhatIfRun",
    "Window",
]
