package validate

import (
	"maps"
	"path"
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// checkPeriodic checks a schedule. A service never ends, so a launch of one would add to all earlier ones.
func checkPeriodic(f field.Errors, p *structs.PeriodicConfig, j *structs.Job) {
	f.Require(j.Finite(), "the job must be of type batch or sysbatch, not %s", j.Type)
	f.CheckOneOf("type", p.SpecType, []string{structs.PeriodicCron})
	checkParentID(f, j)
	f.Require(p.Spec == "" || len(p.Specs) == 0, "cron and crons exclude each other")
	f.Require(len(p.Crons()) > 0, "cron or crons is required")

	for _, spec := range field.FirstOf(f, "crons", p.Crons(), structs.MaxCrons) {
		f.CheckText("cron", spec)
		err := structs.CheckCron(spec)
		f.Require(err == nil, "cron %q is no cron expression: %v", structs.Cut(spec, structs.MaxQuoted), err)
	}

	_, err := p.Location()
	f.Require(err == nil, "time_zone %q is no IANA time zone such as Europe/Berlin",
		structs.Cut(p.TimeZone, structs.MaxQuoted))
}

// checkParentID leaves space for the IDs of children.
func checkParentID(f field.Errors, j *structs.Job) {
	f.Require(len(j.ID) <= structs.MaxName-childIDBytes, "the id of the job must have at most %d bytes, "+
		"because those of its children begin with it", structs.MaxName-childIDBytes)
}

// childIDBytes is the space for the end of the ID of a child.
const childIDBytes = 64

var payloadModes = []string{structs.PayloadOptional, structs.PayloadRequired, structs.PayloadForbidden}

// checkParameterized checks the parameters of a job. A key is in one of the two lists, and once.
func checkParameterized(f field.Errors, p *structs.ParameterizedJobConfig, j *structs.Job) {
	f.Require(j.Finite(), "the job must be of type batch or sysbatch, not %s", j.Type)
	f.Require(j.Periodic == nil, "a job cannot be both parameterized and periodic")
	checkParentID(f, j)
	f.CheckOneOf("payload", p.Payload, payloadModes)
	seen := map[string]bool{}
	for _, keys := range [][]string{p.MetaRequired, p.MetaOptional} {
		for _, key := range field.FirstOf(f, "keys", keys, structs.MaxPairs) {
			// The node passes the values in the environment of the tasks.
			f.Require(field.IsEnvironKey(key), "key %q must not be empty nor hold = or NUL", key)
			f.CheckString("key", key, structs.MaxName)
			f.Require(!seen[key], "key %q is there twice", key)
			seen[key] = true
		}
	}
}

// checkDispatchPayload checks the file into which the node writes a payload. It must not leave the local
// directory of the task.
func checkDispatchPayload(f field.Errors, d *structs.DispatchPayloadConfig) {
	f.CheckText("file", d.File)
	clean := path.Clean("/" + d.File)
	f.Require(d.File != "" && clean != "/" && !strings.ContainsRune(d.File, 0) &&
		!slices.Contains(strings.Split(d.File, "/"), ".."),
		"file %q must be a path below the local directory of the task",
		structs.Cut(d.File, structs.MaxQuoted))
}

// Dispatch checks the values of a dispatch against the parameters of its job.
func Dispatch(j *structs.Job, r *structs.JobDispatchRequest) error {
	p := j.ParameterizedJob
	switch {
	case !j.Parameterized():
		return structs.Preconditionf("job %q is not parameterized", j.ID)
	case j.Stop:
		return structs.Preconditionf("job %q is stopped", j.ID)
	case len(r.Payload) > structs.MaxPayload:
		return structs.Invalidf("Payload has %d bytes; at most %d are allowed", len(r.Payload),
			structs.MaxPayload)
	case p.Payload == structs.PayloadRequired && len(r.Payload) == 0:
		return structs.Invalidf("Payload: job %q requires a payload", j.ID)
	case p.Payload == structs.PayloadForbidden && len(r.Payload) > 0:
		return structs.Invalidf("Payload: job %q has no payload", j.ID)
	case len(r.IdempotencyToken) > structs.MaxName:
		return structs.Invalidf("IdempotencyToken has more than %d bytes", structs.MaxName)
	}

	for _, key := range p.MetaRequired {
		if _, ok := r.Meta[key]; !ok {
			return structs.Invalidf("Meta: job %q requires a value for %q", j.ID, key)
		}
	}

	// In one order, so that a request gets the same error each time.
	for _, key := range slices.Sorted(maps.Keys(r.Meta)) {
		if !slices.Contains(p.MetaRequired, key) && !slices.Contains(p.MetaOptional, key) {
			return structs.Invalidf("Meta: job %q has no parameter %q; it has %s", j.ID,
				structs.Cut(key, structs.MaxQuoted),
				strings.Join(slices.Concat(p.MetaRequired, p.MetaOptional), ", "))
		}
	}

	return nil
}
