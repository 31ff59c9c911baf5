package nomad

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"berth/api"
	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/executor"
	"berth/convert/jobfile"
	"berth/convert/report"
	"berth/internal/conf"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/validate"
)

func (m *migration) jobs(ctx context.Context) error {
	return each(ctx, m, kind{name: "job", list: "/v1/jobs", object: "/v1/job/"}, m.job)
}

// job decides on a job, and writes its file: in HCL if a job file can have it, else the JSON of the API.
func (m *migration) job(item *report.Item, s *stub, stored *json.RawMessage) error {
	src, err := withoutStored(*stored)
	if err != nil {
		item.Add(report.Not, err.Error())
		return nil
	}
	j := judge(item, src)
	base := path.Join("jobs", report.FileName(s.Namespace), report.FileName(s.ID))
	if j != nil {
		text, err := jobfile.Job(j, jobfile.Notes{"": comments(item)})
		if err == nil {
			return m.write(item, base+".hcl", text)
		}
		item.Add(report.Not, hideValues(err.Error(), src))
	}
	var text bytes.Buffer
	err = json.Indent(&text, src, "", "  ")
	if err != nil {
		return fmt.Errorf("the job %s: %w", s.ID, err)
	}
	return m.write(item, base+".json", text.Bytes())
}

// comments are the notes of an item in its file.
func comments(item *report.Item) (all []string) {
	if item.Outcome == report.Not {
		all = append(all, "This job does not run in berth yet:")
	}
	return append(all, item.Notes...)
}

// judge decodes a job, and adds the notes on it. The job is nil if nothing of it can be read.
func judge(item *report.Item, src []byte) *structs.Job {
	j, warnings, err := api.DecodeJob(src)
	var faults *conf.JSONFaults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults.List {
			item.Add(report.Not, withRemedy(hideValues(f.Text, src)))
		}
		if !faults.Partly {
			return nil
		}
	case err != nil:
		item.Add(report.Not, hideValues(err.Error(), src))
		return nil
	}
	for _, line := range warnings {
		item.Add(report.Warnings, hideValues(withoutValue(line), src))
	}
	if j.Stop {
		item.Add(report.Warnings, "it is stopped there, and berth job run would start it")
	}

	for _, line := range dropImplied(j) {
		item.Add(report.Warnings, line)
	}
	defaults.Canonicalize(j)
	err = validate.Job(j)
	if err != nil {
		item.Add(report.Not, lines(hideValues(err.Error(), src))...)
	}
	for _, line := range validate.JobWarnings(j) {
		item.Add(report.Warnings, hideValues(line, src))
	}
	checkDrivers(item, j, src)
	j.DropServerFields()
	return j
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// effectless matches the warning of a field that has no effect, with the value of the field.
var effectless = regexp.MustCompile(`(?s)^(\S+) .* (has no effect: )`)

// withoutValue removes the value from such a warning.
func withoutValue(line string) string { return effectless.ReplaceAllString(line, "$1 $2") }

// ownDrivers are the drivers that each agent of berth has.
var ownDrivers = []string{"docker", "exec", "raw_exec"}

// checkDrivers adds the faults of the settings of tasks, and the drivers that are plugins.
func checkDrivers(item *report.Item, j *structs.Job, src []byte) {
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			place := fmt.Sprintf("task %s of group %s: ", t.Name, g.Name)
			if !slices.Contains(ownDrivers, t.Driver) {
				item.Add(report.Warnings, place+"the nodes need a plugin for the driver "+t.Driver)
			}
			for _, fault := range configFaults(t, src) {
				item.Add(report.Not, place+fault)
			}
		}
	}
}

// configFaults returns why berth rejects the settings of a task, without values.
func configFaults(t *structs.Task, src []byte) (faults []string) {
	var err error
	switch t.Driver {
	case "docker":
		_, err = taskconfig.Check(t.Config)
	case "exec", "raw_exec":
		_, err = executor.DecodeCommand(t.Config)
	}
	if err != nil {
		faults = lines(hideValues(err.Error(), src))
	}
	dir, ok := t.Config["work_dir"].(string)
	if ok && t.Driver == "exec" && !path.IsAbs(dir) && !strings.HasPrefix(dir, "${") {
		faults = append(faults, "config.work_dir: write an absolute path inside the task")
	}
	return faults
}
