package template

import (
	"slices"
	"strings"

	"berth/consul/lookup"
	"berth/structs"
	variabletypes "berth/structs/access"
)

// variablePaths returns the paths of the variables that a task may read.
func variablePaths(a *structs.Allocation, t *structs.Task) []string {
	job := a.Job
	if job == nil {
		job = &structs.Job{ID: a.JobID}
	}
	return variabletypes.JobVariablePaths(job, a.TaskGroup, t.Name)
}

// variables are the functions that read the variables of the task, its group and its job. The servers give a
// node the variables of all its jobs, so the node rejects the others.
type variables struct{ *rendering }

// ask returns a variable, nil if it does not exist or is not known yet.
func (r variables) ask(path string) (*lookup.Variable, lookup.Query, error) {
	q := lookup.ParseVariable(r.values.namespace, path)
	if !slices.Contains(r.values.variables, q.Name) {
		return nil, q, structs.Invalidf("the task may not read the variable %q; it reads %s",
			structs.Cut(path, structs.MaxQuoted), strings.Join(r.values.variables, ", "))
	}
	value, err := r.rendering.ask(q)
	v, _ := value.(*lookup.Variable)
	return v, q, err
}

// read returns the items of a variable. The text waits for a variable that does not exist.
func (r variables) read(path string) (lookup.VariableItems, error) {
	if path == "" {
		return nil, nil
	}
	v, q, err := r.ask(path)
	switch {
	case err != nil:
		return nil, err
	case v != nil:
		return v.Items, nil
	case r.answers[q].Digest != "":
		r.wait(q, "it does not exist")
	}
	return nil, nil
}

func (r variables) exists(path string) (bool, error) {
	if path == "" {
		return false, nil
	}
	v, _, err := r.ask(path)
	return v != nil, err
}

// list returns the variables of the task below a prefix, without their items.
func (r variables) list(prefix ...string) ([]*lookup.VariableMeta, error) {
	if len(prefix) > 1 {
		return nil, structs.Invalidf("nomadVarList takes at most one prefix")
	}
	q := lookup.ParseVariables(r.values.namespace, strings.Join(prefix, ""))
	value, err := r.rendering.ask(q)
	all, _ := value.([]*lookup.VariableMeta)
	var own []*lookup.VariableMeta
	for _, v := range all {
		// The node gets the variables of all its jobs.
		if slices.Contains(r.values.variables, v.Path) {
			own = append(own, v)
		}
	}
	return own, err
}

// listSome is list. The text waits for the first variable.
func (r variables) listSome(prefix ...string) ([]*lookup.VariableMeta, error) {
	own, err := r.list(prefix...)
	if err != nil || len(own) > 0 {
		return own, err
	}
	q := lookup.ParseVariables(r.values.namespace, strings.Join(prefix, ""))
	if r.answers[q].Digest != "" {
		r.wait(q, "there are none")
	}
	return own, nil
}
