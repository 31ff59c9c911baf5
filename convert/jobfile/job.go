package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"berth/jobspec"
	"berth/structs"
	"berth/structs/defaults"
)

// Notes are comments for the reader of a job file: the job's own have the key "", a group's its name, and a
// task's GROUP/TASK.
type Notes map[string][]string

// Job returns the file of a job. It does not change the job, which need not have its defaults. An error is of
// kind invalid: a job file cannot have all of the job.
func Job(j *structs.Job, notes Notes) ([]byte, error) {
	w := jobWriter{notes: notes}
	w.comments(notes[""])
	w.job(j)
	text := w.bytes()
	read, err := jobspec.ReadJob("job.hcl", text, &jobspec.Inputs{})
	if err != nil {
		return nil, structs.Invalidf("a job file cannot have this job: %w", err)
	}

	want, err := canonicalText(j)
	if err != nil {
		return nil, err
	}
	got, err := canonicalText(read.Job)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(got, want) {
		return nil, structs.Invalidf("a job file cannot have all of this job; it lacks %s",
			firstDifference(got, want))
	}
	return text, nil
}

// canonicalText returns a job with its defaults as JSON, in which numbers have one form.
func canonicalText(j *structs.Job) ([]byte, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, structs.Invalidf("the job has a value without a form in JSON: %w", err)
	}
	var c structs.Job
	err = json.Unmarshal(text, &c)
	if err != nil {
		return nil, structs.Invalidf("the job cannot be read again: %w", err)
	}
	defaults.Canonicalize(&c)
	c.DropServerFields()
	text, err = json.Marshal(c)
	if err != nil {
		return nil, structs.Invalidf("the job has a value without a form in JSON: %w", err)
	}

	// An absent list and an empty one ask for the same.
	var tree any
	err = json.Unmarshal(text, &tree)
	if err != nil {
		return nil, structs.Invalidf("the job cannot be read again: %w", err)
	}
	return json.Marshal(withoutEmpty(tree))
}

// withoutEmpty returns a value of JSON without fields that are null, or an empty list or object.
func withoutEmpty(tree any) any {
	switch t := tree.(type) {
	case map[string]any:
		for key, value := range t {
			t[key] = withoutEmpty(value)
			// A mesh gateway is an empty object, which is not the same as none.
			if value == nil || key != "Mesh" && isEmpty(t[key]) {
				delete(t, key)
			}
		}
	case []any:
		for i, value := range t {
			t[i] = withoutEmpty(value)
		}
	}
	return tree
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// firstDifference returns the part of the wanted text around the first difference.
func firstDifference(got, want []byte) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	const around = 40
	from := max(0, at-around)
	to := min(len(want), at+around)
	return fmt.Sprintf("the part at %q", want[from:to])
}
