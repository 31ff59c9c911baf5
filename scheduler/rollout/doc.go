// Package rollout tells how fast a job gets its new version. It is pure: it decides nothing about nodes.
//
//   - Decision is what happens to one allocation of a group.
//   - Rollout is the deployment of the job's version: it begins, holds groups, demands canaries and ends.
//   - Pace counts the allocations of a group that a plan may still replace, by a deployment or in the batches
//     of a per-node job.
package rollout
