package structs

import (
	"fmt"
	"maps"
	"time"
)

// The values of ParameterizedJobConfig.Payload.
const (
	PayloadOptional  = "optional"
	PayloadRequired  = "required"
	PayloadForbidden = "forbidden"
)

// ParameterizedJobConfig makes a job a template: it runs nothing, and each dispatch starts a child with
// values for its parameters.
type ParameterizedJobConfig struct {
	Payload      string   // whether a dispatch has a payload: optional, required or forbidden
	MetaRequired []string // keys of meta that each dispatch sets
	MetaOptional []string // keys of meta that a dispatch may set
}

// DispatchPayloadConfig is a task's `dispatch_payload {}`: the payload of a dispatch is written to a file.
type DispatchPayloadConfig struct {
	File string // below the local directory of the task
}

// Parameterized reports whether the job is a template. A child of one is not.
func (j *Job) Parameterized() bool {
	return j.ParameterizedJob != nil && !j.Dispatched
}

// JobDispatch starts a child of a parameterized job.
var JobDispatch = Write[JobDispatchRequest, JobDispatchResponse]("Job.Dispatch")

// JobDispatchRequest has the values of the parameters. A second dispatch of the job with the same
// IdempotencyToken starts no other child.
type JobDispatchRequest struct {
	JobID            string
	Payload          []byte
	Meta             map[string]string
	IDPrefixTemplate string // becomes a part of the ID of the child
	Priority         int    // 0: the job's
	IdempotencyToken string

	// The server fills in the rest.
	JobModifyIndex uint64 // of the parent
	Child          *Job
	Eval           *Evaluation
	WriteOptions
}

// JobDispatchResponse names the child and its evaluation.
type JobDispatchResponse struct {
	DispatchedJobID string
	EvalID          string
	EvalCreateIndex uint64
	JobCreateIndex  uint64
	WriteMeta
}

// DispatchedChild returns the job that a dispatch starts.
func (j *Job) DispatchedChild(r *JobDispatchRequest, now time.Time) *Job {
	prefix := ""
	if r.IDPrefixTemplate != "" {
		prefix = r.IDPrefixTemplate + "-"
	}

	id := fmt.Sprintf("%s%s%s%d-%s", j.ID, dispatchInfix, prefix, now.Unix(), NewID()[:8])
	child := j.child(id)
	child.Dispatched = true
	child.Payload = r.Payload
	child.DispatchIdempotencyToken = r.IdempotencyToken
	if r.Priority != 0 {
		child.Priority = r.Priority
	}

	if child.Meta == nil {
		child.Meta = map[string]string{}
	}

	maps.Copy(child.Meta, r.Meta)
	return child
}
