"""The addresses below ``/api/v1/``."""

from __future__ import annotations

from django.urls import path

from scheduling.api import artifacts, attempts, job_record, jobs, nodes, plan, pool, schema, tokens, uploads, windows

__all__ = ["schema", "urlpatterns"]  # importing the schema's extensions is what makes OpenAPI know them

urlpatterns = [
    path("jobs/", jobs.JobList.as_view(), name="api-jobs"),
    path("jobs/plan/", plan.JobPlan.as_view(), name="api-job-plan"),
    path("jobs/<str:job_id>/", jobs.job, name="api-job"),
    path("jobs/<str:job_id>/cancel/", jobs.JobCancel.as_view(), name="api-job-cancel"),
    path("jobs/<str:job_id>/hold/", jobs.JobHold.as_view(), name="api-job-hold"),
    path("jobs/<str:job_id>/release/", jobs.JobRelease.as_view(), name="api-job-release"),
    path("jobs/<str:job_id>/clone/", jobs.JobClone.as_view(), name="api-job-clone"),
    path("jobs/<str:job_id>/events/", job_record.JobEvents.as_view(), name="api-job-events"),
    path("jobs/<str:job_id>/attempts/", job_record.JobAttempts.as_view(), name="api-job-attempts"),
    path("jobs/<str:job_id>/logs/", job_record.JobLog.as_view(), name="api-job-logs"),
    path("jobs/<str:job_id>/metrics/", job_record.JobMetrics.as_view(), name="api-job-metrics"),
    path("plan/replay/", plan.Replay.as_view(), name="api-replay"),
    path("queues/", pool.QueueList.as_view(), name="api-queues"),
    path("share/", pool.Share.as_view(), name="api-share"),
    path("pool/", pool.Pool.as_view(), name="api-pool"),
    path("pool/nodes/<str:name>/", pool.NodeDetail.as_view(), name="api-node"),
    path("pool/nodes/<str:name>/cordon/", pool.NodeCordon.as_view(), name="api-node-cordon"),
    path("pool/nodes/<str:name>/drain/", pool.NodeDrain.as_view(), name="api-node-drain"),
    path("pool/nodes/<str:name>/return/", pool.NodeReturn.as_view(), name="api-node-return"),
    path("pool/gpus/<str:uuid>/", pool.GpuDetail.as_view(), name="api-gpu"),
    path("pool/gpus/<str:uuid>/return/", pool.GpuReturn.as_view(), name="api-gpu-return"),
    path("pool/gpus/<str:uuid>/retire/", pool.GpuRetire.as_view(), name="api-gpu-retire"),
    path("pool/windows/", windows.WindowList.as_view(), name="api-windows"),
    path("pool/windows/<int:window>/", windows.WindowDetail.as_view(), name="api-window"),
    path("artifacts/", artifacts.ArtifactList.as_view(), name="api-artifacts"),
    path("artifacts/uploads/<str:upload>/", uploads.UploadOffsets.as_view(), name="api-upload"),
    path("artifacts/uploads/<str:upload>/files/<path:path>", uploads.UploadFile.as_view(), name="api-upload-file"),
    path("artifacts/uploads/<str:upload>/commit/", uploads.UploadCommit.as_view(), name="api-upload-commit"),
    path("artifacts/<str:artifact_id>/", artifacts.ArtifactDetail.as_view(), name="api-artifact"),
    path("artifacts/<str:artifact_id>/files/<path:path>", artifacts.ArtifactFile.as_view(), name="api-artifact-file"),
    path("artifacts/<str:artifact_id>/lineage/", artifacts.ArtifactLineage.as_view(), name="api-artifact-lineage"),
    path("tokens/", tokens.TokenList.as_view(), name="api-tokens"),
    path("tokens/<str:token_id>/", tokens.TokenDetail.as_view(), name="api-token"),
    path("nodes/register/", nodes.NodeRegister.as_view(), name="api-register"),
    path("nodes/heartbeat/", nodes.NodeHeartbeat.as_view(), name="api-heartbeat"),
    path("nodes/bell/", nodes.bell, name="api-bell"),
    path("attempts/<str:attempt>/claim/", attempts.AttemptClaim.as_view(), name="api-claim"),
    path("attempts/<str:attempt>/ready/", attempts.AttemptReady.as_view(), name="api-ready"),
    path("attempts/<str:attempt>/started/", attempts.AttemptStarted.as_view(), name="api-started"),
    path("attempts/<str:attempt>/progress/", attempts.AttemptProgress.as_view(), name="api-progress"),
    path("attempts/<str:attempt>/metric/", attempts.AttemptMetric.as_view(), name="api-metric"),
    path("attempts/<str:attempt>/logs/", attempts.AttemptLogs.as_view(), name="api-logs"),
    path("attempts/<str:attempt>/checkpoint/", attempts.AttemptCheckpoint.as_view(), name="api-checkpoint"),
    path("attempts/<str:attempt>/finished/", attempts.AttemptFinished.as_view(), name="api-finished"),
    path("attempts/<str:attempt>/inputs/<str:artifact>/files/<path:path>", attempts.AttemptInput.as_view(),
         name="api-input"),
    path("attempts/<str:attempt>/artifacts/", attempts.AttemptUploads.as_view(), name="api-attempt-uploads"),
    path("attempts/<str:attempt>/artifacts/<str:upload>/files/<path:path>", attempts.AttemptUploadFile.as_view(),
         name="api-attempt-upload-file"),
    path("attempts/<str:attempt>/artifacts/<str:upload>/commit/", attempts.AttemptUploadCommit.as_view(),
         name="api-attempt-upload-commit"),
]  # fmt: skip
