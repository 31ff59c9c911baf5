package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"berth/internal/conf"
	"berth/jobspec"
	"berth/jobspec/locate"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

// dialectDefaults has the values that clients of the dialect fill into fields that berth does not have. A
// field with exactly this value asks for nothing.
var dialectDefaults = map[string]string{
	"Enabled": `true`,      // of logs; berth has Disabled
	"Cluster": `"default"`, // of services, in Consul
}

// dialectDefault reports whether an unknown field has the default of the dialect.
func DialectDefault(field string, value json.RawMessage) (is bool, remedy string) {
	text, ok := dialectDefaults[field]
	if !ok {
		return false, ""
	}
	var got, want any
	is = json.Unmarshal(value, &got) == nil &&
		json.Unmarshal([]byte(text), &want) == nil &&
		reflect.DeepEqual(got, want)
	return is, ""
}

// withoutEffect has the fields of a job that the dialect itself ignores, at least its free edition, and those
// that ask for nothing that a job of berth lacks, with the reasons.
var withoutEffect = map[string]string{
	"FailuresBeforeWarning": jobspec.NoWarnings,
	"RenderTemplates":       jobspec.NoRendering,
	"ScalingPolicies":       jobspec.NoTaskScaling, // of a task
	"UI":                    jobspec.NoWebInterface,

	"IOPS":       "operations of disks are neither reserved nor limited",
	"MBits":      "bandwidth is neither reserved nor limited",
	"Notes":      "nothing shows the notes of a check",
	"VaultGrace": "nothing reads it any more",

	"ConsulNamespace": namespaceOfConsul, // of the job
}

const namespaceOfConsul = "namespaces are those of Consul Enterprise; berth uses that of the agent"

// ignoredFields collects a warning for each field of withoutEffect, and for each former name.
type ignoredFields struct {
	warnings []string
	former   int // fields with a former name: see addFormerFields
}

// accept reports whether an unknown field may be dropped.
func (i *ignoredFields) accept(field string, value json.RawMessage) (drop bool, remedy string) {
	now, isFormer := formerFieldName(field)
	switch {
	case isFormer && !fitsFormerField(field, value):
		return false, "set " + now
	case isFormer:
		i.former++
		i.add(fmt.Sprintf("%s is a former name of %s", field, now))
		return true, ""
	}

	reason, ignored := withoutEffect[field]
	if !ignored {
		return DialectDefault(field, value)
	}
	i.warn(field, value, reason)
	return true, ""
}

// warn adds a warning of a field.
func (i *ignoredFields) warn(field string, value json.RawMessage, reason string) {
	if len(value) > 0 {
		field += " " + structs.Cut(string(value), structs.MaxQuoted)
	}
	i.add(fmt.Sprintf("%s has no effect: %s", field, reason))
}

// add adds a warning, each once.
func (i *ignoredFields) add(line string) {
	if len(i.warnings) < structs.MaxFaults && !slices.Contains(i.warnings, line) {
		i.warnings = append(i.warnings, line)
	}
}

// addTo adds the warnings to others, a line each.
func (i *ignoredFields) AddTo(warnings *string) {
	lines := append([]string{*warnings}, i.warnings...)
	*warnings = strings.Trim(strings.Join(lines, "\n"), "\n")
}

// DecodeJob decodes one job from the JSON of the API, as strictly as the API does. The warnings name fields
// without an effect. The error has all faults: see conf.JSONFaults, which tells whether they leave a job.
func DecodeJob(src []byte) (job *structs.Job, warnings []string, err error) {
	job = &structs.Job{}
	var ignored ignoredFields
	err = conf.DecodeJSON(src, job, ignored.accept)
	if err == nil && ignored.former > 0 {
		err = addFormerFields(src, job, ignored.former)
	}
	return job, ignored.warnings, err
}

// decodeJobBody decodes a body that has a job. If faults of the body leave the job, the job's faults follow.
func (c *Call) DecodeJobBody(body any, job **structs.Job) error {
	text, err := c.readBody()
	if err != nil {
		return err
	}
	err = conf.DecodeJSON(text, body, c.Ignored.accept)
	var faults *conf.JSONFaults
	switch {
	case errors.As(err, &faults) && faults.Partly && *job != nil:
		return c.addJobFaults(text, *job, faults)
	case err == nil && *job == nil:
		return structs.Invalidf("Job: expected a job, found none")
	case err == nil && c.Ignored.former > 0:
		return addFormerFields(text, *job, c.Ignored.former)
	}
	return err
}

// addJobFaults adds the faults of a job to the faults of the body, which left the job.
func (c *Call) addJobFaults(text []byte, job *structs.Job, faults *conf.JSONFaults) error {
	end, err := c.BeginParsing()
	if err != nil {
		return err
	}
	defer end()
	defaults.Canonicalize(job)
	for _, d := range conf.Faults(locate.InJSON("", text, faults, validate.Job(job))) {
		fault := &conf.JSONFault{Text: d.Summary}
		if d.Subject != nil {
			fault.Line = d.Subject.Start.Line
			fault.Column = d.Subject.Start.Column
		}
		faults.Add(fault)
	}
	return structs.Invalidf("%w", faults)
}

// parsing bounds the job files that one process parses at a time, because each may take MaxEvaluation.
var parsing = make(chan struct{}, 2)

// beginParsing waits for one of the places of parsing, which end releases.
func (c *Call) BeginParsing() (end func(), err error) {
	select {
	case parsing <- struct{}{}:
		return func() { <-parsing }, nil
	case <-c.Ctx().Done():
		return nil, c.Ctx().Err()
	}
}
