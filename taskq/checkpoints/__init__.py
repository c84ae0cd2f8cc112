"""Checkpoints: what an attempt leaves for the next one, an archive of files for each task.

`store` finds and saves them for those who work on a task; those of tasks that are final are removed
by `taskq.blobs.archives`. The content is a blob; the table `checkpoint` says which, under the fence
of the attempt.
Archives are made and read by agents only (`taskq_agent.archive`).
"""
