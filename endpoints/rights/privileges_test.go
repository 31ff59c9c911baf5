package rights_test

import (
	"reflect"
	"testing"

	"berth/acl"
	"berth/endpoints/rights"
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// ofTheJob are the fields of a task that reach nothing beyond its sandbox, and the parts of the job that have
// rights of their own: volumes, variables, tokens.
var ofTheJob = []string{
	"Name", "User", "Env", "Constraints", "Affinities", "RestartPolicy", "Resources", "Meta", "KillTimeout",
	"KillSignal", "LogConfig", "Leader", "Lifecycle", "ShutdownDelay", "Templates", "VolumeMounts",
	"Artifacts", "Services", "Kind", "DispatchPayload", "Identity", "Identities", "Vault", "Consul", "Actions",
}

// beyond are the values of the other fields with which a task has rights over its host, and the right that
// the submission of each needs.
var beyond = map[string]struct {
	task  structs.Task
	right acl.Capability
}{
	"Driver": {structs.Task{Driver: "raw_exec"}, acl.SubmitRawExec},
	"Config": {container("privileged", true), acl.SubmitPrivileged},
	"CSIPluginConfig": {
		structs.Task{Driver: "exec", CSIPluginConfig: &structs.CSIPluginConfig{}}, acl.CSIRegisterPlugin,
	},
}

// Whoever may not submit a task may not run commands in it either, and each field of a task is known for the
// right that it needs. A new field belongs in one of the lists.
func TestPrivileges_AreAskedForTheTaskAndForCommandsInIt(t *testing.T) {
	known := map[string]bool{}
	for _, field := range ofTheJob {
		known[field] = true
		task := structs.Task{Driver: "exec"}
		setField(t, &task, field)
		checkRights(t, field, task, "", true)
	}
	for field, c := range beyond {
		known[field] = true
		checkRights(t, field, c.task, c.right, true)
		others := []acl.Capability{"", acl.SubmitRawExec, acl.SubmitPrivileged, acl.CSIRegisterPlugin}
		for _, right := range others {
			if right != c.right {
				checkRights(t, field, c.task, right, false)
			}
		}
	}
	for f := range reflect.TypeFor[structs.Task]().Fields() {
		if !known[f.Name] {
			t.Errorf("field %s of a task: no list says whether it has rights over the host", f.Name)
		}
	}
}

// checkRights compares the answer to the submission of a task with a right. A command in a task that needs
// any is allowed with alloc-node-exec alone.
func checkRights(t *testing.T, field string, task structs.Task, right acl.Capability, want bool) {
	t.Helper()
	rules := submitter
	if right != "" {
		rules = withCapability(string(right))
	}
	job := &structs.Job{
		Namespace:  "team",
		ID:         "j",
		TaskGroups: []*structs.TaskGroup{{Name: "g", Tasks: []*structs.Task{&task}}},
	}
	if got := rights.JobSubmit.Allows(ask(t, rules, &structs.JobRegisterRequest{Job: job})); got != want {
		t.Errorf("%s: submitted with %q: %t, want %t", field, right, got, want)
	}

	isPlain := want && right == ""
	if got := allowsExec(t, rules, job); got != isPlain {
		t.Errorf("%s: a command with %q: allowed %t, want %t", field, right, got, isPlain)
	}
	if !allowsExec(t, withCapability("alloc-node-exec"), job) {
		t.Errorf("%s: a command with alloc-node-exec is denied", field)
	}
}

func allowsExec(t *testing.T, rules string, job *structs.Job) bool {
	t.Helper()
	stored := mvcc.Open(&schema.All)
	err := stored.Write(10, func(tx *mvcc.WriteTx) error {
		schema.JobVersions.Put(tx, job)
		schema.Allocs.Put(tx, &structs.Allocation{ID: "a", Namespace: "team", JobID: "j", TaskGroup: "g"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	q := ask(t, rules, &access.CheckRequest{Needs: access.NeedsAllocExec, AllocID: "a"})
	q.Tx = stored.Read()
	return rights.Check.Allows(q)
}

// setField sets a field of a task to a value other than its zero.
func setField(t *testing.T, task *structs.Task, name string) {
	t.Helper()
	f := reflect.ValueOf(task).Elem().FieldByName(name)
	if !f.IsValid() {
		t.Fatalf("a task has no field %s", name)
	}
	switch f.Kind() {
	case reflect.String:
		f.SetString("x")
	case reflect.Bool:
		f.SetBool(true)
	case reflect.Int64:
		f.SetInt(1)
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
	case reflect.Slice:
		f.Set(reflect.Append(f, reflect.New(f.Type().Elem().Elem())))
	case reflect.Map:
		f.Set(reflect.MakeMap(f.Type()))
		f.SetMapIndex(reflect.ValueOf("x"), reflect.ValueOf("x"))
	default:
		t.Fatalf("field %s has a kind that this test cannot set", name)
	}
}
