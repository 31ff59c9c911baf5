package structs

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// The values of ParameterizedJobConfig.Payload.
const (
	PayloadOptional  = "optional"
	PayloadRequired  = "required"
	PayloadForbidden = "forbidden"
)

var payloadModes = []string{PayloadOptional, PayloadRequired, PayloadForbidden}

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

func (p *ParameterizedJobConfig) validate(f fieldErrors, j *Job) {
	f.require(j.Finite(), "the job must be of type batch or sysbatch, not %s", j.Type)
	f.require(j.Periodic == nil, "a job cannot be both parameterized and periodic")
	j.checkParentID(f)
	f.checkOneOf("payload", p.Payload, payloadModes)
	seen := map[string]bool{}
	for _, keys := range [][]string{p.MetaRequired, p.MetaOptional} {
		for _, key := range firstOf(f, "keys", keys, MaxPairs) {
			f.require(environKeyForm().MatchString(key), "key %q must not be empty nor hold = or NUL", key)
			f.checkString("key", key, MaxName)
			f.require(!seen[key], "key %q is there twice", key)
			seen[key] = true
		}
	}
}

func (d *DispatchPayloadConfig) validate(f fieldErrors) {
	f.checkText("file", d.File)
	clean := path.Clean("/" + d.File)
	f.require(d.File != "" && clean != "/" && !strings.ContainsRune(d.File, 0) &&
		!slices.Contains(strings.Split(d.File, "/"), ".."),
		"file %q must be a path below the local directory of the task", Cut(d.File, MaxQuoted))
}

// JobDispatch starts a child of a parameterized job.
var JobDispatch = write[JobDispatchRequest, JobDispatchResponse]("Job.Dispatch")

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

// DispatchedChild returns the job that a dispatch starts, or an error if the values do not fit the
// parameters.
func (j *Job) DispatchedChild(r *JobDispatchRequest, now time.Time) (*Job, error) {
	err := j.checkDispatch(r)
	if err != nil {
		return nil, err
	}

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
	return child, child.Validate()
}

func (j *Job) checkDispatch(r *JobDispatchRequest) error {
	p := j.ParameterizedJob
	switch {
	case !j.Parameterized():
		return Preconditionf("job %q is not parameterized", j.ID)
	case j.Stop:
		return Preconditionf("job %q is stopped", j.ID)
	case len(r.Payload) > MaxPayload:
		return Invalidf("Payload has %d bytes; at most %d are allowed", len(r.Payload), MaxPayload)
	case p.Payload == PayloadRequired && len(r.Payload) == 0:
		return Invalidf("Payload: job %q requires a payload", j.ID)
	case p.Payload == PayloadForbidden && len(r.Payload) > 0:
		return Invalidf("Payload: job %q has no payload", j.ID)
	case len(r.IdempotencyToken) > MaxName:
		return Invalidf("IdempotencyToken has more than %d bytes", MaxName)
	}

	for _, key := range p.MetaRequired {
		if _, ok := r.Meta[key]; !ok {
			return Invalidf("Meta: job %q requires a value for %q", j.ID, key)
		}
	}

	for _, key := range slices.Sorted(maps.Keys(r.Meta)) {
		if !slices.Contains(p.MetaRequired, key) && !slices.Contains(p.MetaOptional, key) {
			return Invalidf("Meta: job %q has no parameter %q; it has %s", j.ID, Cut(key, MaxQuoted),
				strings.Join(slices.Concat(p.MetaRequired, p.MetaOptional), ", "))
		}
	}

	return nil
}
