package job_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/nodecalls"
)

// addDrivers makes a node report drivers, healthy if the value is true.
func addDrivers(s *endpointstest.Server, id string, healthy map[string]bool) {
	s.T.Helper()
	node := &structs.Node{
		ID:       id,
		SecretID: endpointstest.SecretOf(id),
		Name:     "name-" + id,
		Status:   structs.NodeReady,
		Drivers:  map[string]*structs.DriverInfo{},
		NodeResources: &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: 4000},
			Memory: structs.NodeMemoryResources{MemoryMB: 4000},
			Disk:   structs.NodeDiskResources{DiskMB: 40000},
		},
	}
	for name, ok := range healthy {
		node.Drivers[name] = &structs.DriverInfo{Detected: ok, Healthy: ok}
	}
	endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{Node: node})
}

// rejectKeys makes the node accept only configs with the key "image".
func rejectKeys(n *endpointstest.FakeNode, err error) { rejectKeysOf(n, err, true) }

// rejectKeysOf is rejectKeys of a node that does or does not leave values with references open.
func rejectKeysOf(n *endpointstest.FakeNode, err error, leavesReferences bool) {
	n.Answer = func(method string, req, resp any) error {
		if method != nodecalls.ClientDriverValidate.Name {
			return errors.New("unexpected call of " + method)
		}
		for _, config := range req.(*nodecalls.ClientDriverValidateRequest).Configs {
			fault := ""
			if config["image"] == nil {
				fault = "config.image: missing\nconfig.imgae: unknown field"
			}
			answer := resp.(*nodecalls.ClientDriverValidateResponse)
			answer.LeavesReferences = leavesReferences
			answer.Faults = append(answer.Faults, fault)
		}
		return err
	}
}

func jobWithTasks(tasks ...*structs.Task) *structs.Job {
	return &structs.Job{
		ID:         "j",
		TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1, Tasks: tasks}},
	}
}

func TestJobValidate_ChecksDriversOfTheNodesThatAreUp(t *testing.T) {
	good := &structs.Task{Name: "good", Driver: "vm", Config: map[string]any{"image": "x"}}
	bad := &structs.Task{Name: "bad", Driver: "vm", Config: map[string]any{"imgae": "x"}}
	placeholder := &structs.Task{
		Name:   "later",
		Driver: "vm",
		Config: map[string]any{"image": "x", "n": []any{"${NOMAD_PORT_x}"}},
	}
	typo := &structs.Task{Name: "typo", Driver: "vn", Config: map[string]any{}}
	const fault = `job "j": group "g": task `
	for name, c := range map[string]struct {
		tasks     []*structs.Task
		drivers   map[string]bool // nil: no node
		answer    error
		want      []string
		warning   string
		validated bool
	}{
		"valid":       {[]*structs.Task{good}, map[string]bool{"vm": true}, nil, nil, "", true},
		"unhealthy":   {[]*structs.Task{good}, map[string]bool{"vm": false}, nil, nil, "", true},
		"placeholder": {[]*structs.Task{good, placeholder}, map[string]bool{"vm": true}, nil, nil, "", false},
		"a wrong key": {[]*structs.Task{good, bad}, map[string]bool{"vm": true, "exec": true}, nil, []string{
			fault + `"bad": config: image: missing`,
			fault + `"bad": config: imgae: unknown field`,
		}, "", true},
		"an unknown driver": {[]*structs.Task{good, typo}, map[string]bool{"vm": true}, nil, nil,
			fault + `"typo": driver "vn" is on no node that is up; did you mean "vm"?`, false},
		"other drivers": {[]*structs.Task{good}, map[string]bool{"exec": true, "docker": false}, nil, nil,
			fault + `"good": driver "vm" is on no node that is up; the nodes that are up have: docker, exec`, false},
		"no driver": {[]*structs.Task{good}, map[string]bool{}, nil, nil,
			fault + `"good": driver "vm" is on no node that is up; no node that is up has a driver`, false},
		"no node": {[]*structs.Task{typo}, nil, nil, nil,
			"no node is up, so the drivers of the tasks are not checked", false},
		"no answer": {[]*structs.Task{bad}, map[string]bool{"vm": true}, structs.Unavailablef("it is busy"), nil,
			`the configs of tasks with the driver "vm" are not checked: it is busy`, false},
		"no task": {nil, map[string]bool{}, nil, []string{
			`job "j": group "g": at least one task is required`,
		}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := endpointstest.New(t)
			if c.drivers != nil {
				n := s.AddNode("n1", "a")
				rejectKeys(n, c.answer)
				addDrivers(s, "n1", c.drivers)
			}
			got := endpointstest.Must(s, structs.JobValidate,
				&structs.JobValidateRequest{Job: jobWithTasks(c.tasks...)})
			if strings.Join(got.ValidationErrors, "\n") != strings.Join(c.want, "\n") ||
				got.Error != strings.Join(c.want, "\n") {
				t.Errorf("got the faults %q\nwant %q", got.ValidationErrors, c.want)
			}
			if got.Warnings != c.warning || got.DriverConfigValidated != c.validated {
				t.Errorf("got %q, %t; want %q, %t", got.Warnings, got.DriverConfigValidated,
					c.warning, c.validated)
			}
		})
	}
	endpointstest.Rejected(endpointstest.New(t), structs.KindInvalid, structs.JobValidate,
		&structs.JobValidateRequest{})
}

// TestJobRegister_WarnsOfMemoryThatNoNodeHas gives the memory of a task in KiB: the unit is MB.
func TestJobRegister_WarnsOfMemoryThatNoNodeHas(t *testing.T) {
	s := endpointstest.New(t)
	job := func(memory int) *structs.Job {
		return jobWithTasks(&structs.Task{
			Name:      "t",
			Driver:    "exec",
			Resources: &structs.Resources{MemoryMB: memory},
		})
	}
	check := func(memory int, want string) {
		t.Helper()
		validated := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: job(memory)})
		registered := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job(memory)})
		planned := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job(memory)})
		for i, got := range []string{validated.Warnings, registered.Warnings, planned.Warnings} {
			if has := strings.Contains(got, "memory is"); has != (want != "") || !strings.Contains(got, want) {
				t.Errorf("%d MB, %d: got %q, want %q", memory, i, got, want)
			}
		}
	}
	check(1<<20, "")
	check(3_200_000, `task "t": memory is 3200000 MB, and no node has more than 1048576 MB`)
	rejectKeys(s.AddNode("n1", "a"), nil)
	addDrivers(s, "n1", map[string]bool{"exec": true})
	check(4000, "")
	check(4001, `job "j": group "g": task "t": memory is 4001 MB, and no node has more than 4000 MB`)
}

// TestJobRegister_WarnsOfADriverThatNoNodeHas registers and plans what a validation warns of.
func TestJobRegister_WarnsOfADriverThatNoNodeHas(t *testing.T) {
	s := endpointstest.New(t)
	const warning = `job "j": group "g": task "t": driver "vm" is on no node that is up; ` +
		`the nodes that are up have: exec`
	job := func() *structs.Job { return jobWithTasks(&structs.Task{Name: "t", Driver: "vm"}) }
	warnings := func() []string {
		validated := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: job()})
		registered := endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job()})
		planned := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job()})
		return []string{validated.Warnings, registered.Warnings, planned.Warnings}
	}
	for _, w := range warnings()[1:] {
		if w != "" {
			t.Errorf("without a node: got %q", w)
		}
	}
	rejectKeys(s.AddNode("n1", "a"), nil)
	addDrivers(s, "n1", map[string]bool{"exec": true})
	for i, w := range warnings() {
		if w != warning {
			t.Errorf("%d: got %q, want %q", i, w, warning)
		}
	}
	addDrivers(s, "n1", map[string]bool{"exec": true, "vm": false})
	for i, w := range warnings()[1:] {
		if w != "" {
			t.Errorf("%d: the driver is there: got %q", i, w)
		}
	}
}

// A node of an earlier version takes a reference for the value itself.
func TestJobValidate_ChecksTheKeysOfAConfigWithAReference(t *testing.T) {
	task := &structs.Task{Name: "t", Driver: "vm", Config: map[string]any{"imgae": "${node.class}"}}
	for leavesReferences, want := range map[bool]int{true: 2, false: 0} {
		s := endpointstest.New(t)
		rejectKeysOf(s.AddNode("n1", "a"), nil, leavesReferences)
		addDrivers(s, "n1", map[string]bool{"vm": true})
		got := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: jobWithTasks(task)})
		if len(got.ValidationErrors) != want || got.DriverConfigValidated {
			t.Errorf("a node that leaves references, %t: got %q, validated %t; want %d faults",
				leavesReferences, got.ValidationErrors, got.DriverConfigValidated, want)
		}
	}
}

// A job that breaks a rule of its own is checked against the drivers all the same.
func TestJobValidate_ShowsFaultsOfTheJobAndOfItsDrivers(t *testing.T) {
	s := endpointstest.New(t)
	rejectKeys(s.AddNode("n1", "a"), nil)
	addDrivers(s, "n1", map[string]bool{"vm": true})
	deep := any("x")
	for range structs.MaxConfigNesting + 1 {
		deep = []any{deep}
	}
	j := jobWithTasks(
		&structs.Task{Name: "typo", Driver: "vn"}, nil,
		&structs.Task{Name: "bad", Driver: "vm", Config: map[string]any{"imgae": "x"}},
		&structs.Task{Name: "deep", Driver: "vm", Config: map[string]any{"image": deep}},
	)
	j.TaskGroups = append(j.TaskGroups, nil)
	j.Priority = 500
	got := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: j})
	want := []string{
		`job "j": priority 500 must be between 1 and 100`,
		`job "j": group "g": task 1 is null`,
		`job "j": group "g": task "deep": config nests maps and lists more than 250 levels deep`,
		`job "j": group 1 is null`,
		`job "j": group "g": task "bad": config: image: missing`,
		`job "j": group "g": task "bad": config: imgae: unknown field`,
	}
	const warning = `job "j": group "g": task "typo": driver "vn" is on no node that is up; did you mean "vm"?`
	if got.Warnings != warning {
		t.Errorf("got the warnings %q, want %q", got.Warnings, warning)
	}
	if !slices.Equal(got.ValidationErrors, want) || got.Error != strings.Join(want, "\n") {
		t.Errorf("got %q\nwant %q", got.ValidationErrors, want)
	}
	if got.DriverConfigValidated {
		t.Error("the answer says that a node has checked the config that nests too deep")
	}
}

func TestJobValidate_BoundsItsAnswer(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	addDrivers(s, "n1", map[string]bool{"vm": true})
	j := jobWithTasks()
	j.ID = strings.Repeat("j", 10_000)
	j.Namespace = strings.Repeat("n", 10_000)
	for range structs.MaxGroups + 1 {
		g := &structs.TaskGroup{Name: strings.Repeat("g", 100)}
		for range 10 {
			g.Tasks = append(g.Tasks, &structs.Task{Name: strings.Repeat("t", 100), Driver: strings.Repeat("x", 100)})
		}
		j.TaskGroups = append(j.TaskGroups, g)
	}
	got := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: j})
	last := got.ValidationErrors[len(got.ValidationErrors)-1]
	if len(got.ValidationErrors) != structs.MaxFaults+1 || !strings.HasPrefix(last, "and ") {
		t.Errorf("%d lines, the last is %q", len(got.ValidationErrors), last)
	}
	if len(got.Error) > 2*structs.MaxFaults*structs.MaxReason {
		t.Errorf("%d bytes", len(got.Error))
	}
	if got.DriverConfigValidated {
		t.Error("the answer says that the tasks of a group beyond the bound are checked")
	}
}

func TestJobValidate_IgnoresNodesThatAreDown(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	addDrivers(s, "n1", map[string]bool{"vm": true})
	s.SetNodeDown("n1")
	req := &structs.JobValidateRequest{Job: jobWithTasks(&structs.Task{Name: "t", Driver: "vm"})}
	got := endpointstest.Must(s, structs.JobValidate, req)
	if got.Error != "" || !strings.Contains(got.Warnings, "no node is up") {
		t.Errorf("got %q, a warning %q", got.Error, got.Warnings)
	}
}
