package defaults

import (
	"berth/structs"
	"testing"
)

// A name is resolved only with values that no node and no child of the job has otherwise.
func TestJob_ServiceName(t *testing.T) {
	const all = "${NOMAD_JOB_NAME}-${BERTH_JOB_ID}-${env.NOMAD_GROUP_NAME}-${env.BERTH_NAMESPACE}"
	for name, c := range map[string]struct {
		text  string
		owner string
		edit  func(*structs.Job)
		want  string
	}{
		"of a group":  {all, "", nil, "name-id-g-ns"},
		"of a task":   {all + "-${NOMAD_TASK_NAME}", "t", nil, "name-id-g-ns-t"},
		"without any": {"web", "", nil, "web"},
		"of a node":   {"web-${NOMAD_DC}-${NOMAD_GROUP_NAME}", "t", nil, "web-${NOMAD_DC}-g"},
		"no task":     {"${NOMAD_TASK_NAME}", "", nil, "${NOMAD_TASK_NAME}"},
		"once": {
			"${NOMAD_JOB_NAME}", "",
			func(j *structs.Job) { j.Name = "${NOMAD_DC}" },
			"${NOMAD_DC}",
		},
		"env of the task": {"${NOMAD_JOB_NAME}", "t", setEnv("NOMAD_JOB_NAME"), "${NOMAD_JOB_NAME}"},
		"its other name":  {"${env.NOMAD_REGION}", "t", setEnv("env.NOMAD_REGION"), "${env.NOMAD_REGION}"},
		"its own name":    {"${NOMAD_TASK_NAME}", "t", setEnv("NOMAD_TASK_NAME"), "${NOMAD_TASK_NAME}"},
		"other env":       {"${NOMAD_JOB_NAME}", "t", setEnv("NAME"), "name"},
		"env of another":  {"${NOMAD_JOB_NAME}", "", setEnv("NOMAD_JOB_NAME"), "name"},
		"periodic": {
			"${NOMAD_JOB_NAME}-${NOMAD_JOB_ID}-${NOMAD_REGION}", "",
			func(j *structs.Job) { j.Periodic = &structs.PeriodicConfig{} },
			"${NOMAD_JOB_NAME}-${NOMAD_JOB_ID}-r",
		},
		"parameterized": {
			"${NOMAD_JOB_NAME}-${NOMAD_JOB_ID}-${NOMAD_REGION}", "",
			func(j *structs.Job) { j.ParameterizedJob = &structs.ParameterizedJobConfig{} },
			"${NOMAD_JOB_NAME}-${NOMAD_JOB_ID}-r",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &structs.TaskGroup{Name: "g", Tasks: []*structs.Task{{Name: "t"}}}
			j := &structs.Job{ID: "id", Name: "name", Namespace: "ns", Region: "r"}
			j.TaskGroups = []*structs.TaskGroup{g}
			if c.edit != nil {
				c.edit(j)
			}
			got := ServiceName(j, g, structs.OwnedService{Owner: c.owner, Service: &structs.Service{Name: c.text}})
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func setEnv(name string) func(*structs.Job) {
	return func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Env = map[string]string{name: "other"} }
}
