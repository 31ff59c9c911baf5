// Package job has the procedures of jobs, and of what comes of them: evaluations, deployments, allocations,
// services and scaling policies. They check a job and request its evaluation. They place nothing.
package job
