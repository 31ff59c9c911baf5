package jobdiff

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/defaults"
)

// fill sets every field of a value, two levels of itself deep at most.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth < 12 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		key := reflect.ValueOf("k").Convert(v.Type().Key())
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		v.SetUint(1)
	default:
		v.SetInt(1)
	}
}

// leaves calls visit with each settable simple value within a value, and its path.
func leaves(v reflect.Value, path string, visit func(path string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			leaves(v.Elem(), path, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				leaves(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), path+"[]", visit)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			entry := reflect.New(v.Type().Elem()).Elem()
			entry.Set(v.MapIndex(key))
			leaves(entry, path+"[k]", func(path string, leaf reflect.Value) {
				visit(path, leaf)
				v.SetMapIndex(key, entry)
			})
		}
	default:
		visit(path, v)
	}
}

func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		v.Set(reflect.ValueOf("changed"))
	case reflect.String:
		v.SetString("changed")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		v.SetUint(v.Uint() + 1)
	default:
		v.SetInt(v.Int() + 1)
	}
}

func filledJob() *structs.Job {
	j := &structs.Job{}
	fill(reflect.ValueOf(j).Elem(), 0)
	return j
}

// Every field of a job that a user can set takes part in the difference, and no field of the servers.
func TestCompare_ShowsEachField(t *testing.T) {
	ofServers := filledJob()
	ofServers.DropServerFields()
	server := reflect.ValueOf(ofServers).Elem()
	total := 0
	leaves(reflect.ValueOf(filledJob()).Elem(), "", func(path string, _ reflect.Value) {
		total++
		at := total
		now := filledJob()
		n := 0
		leaves(reflect.ValueOf(now).Elem(), "", func(_ string, v reflect.Value) {
			n++
			if n == at {
				change(v)
			}
		})
		name := strings.TrimPrefix(path, ".")
		top, _, nested := strings.Cut(name, ".")
		if name == "ID" {
			return // another ID is another job
		}
		field := server.FieldByName(strings.TrimSuffix(strings.TrimSuffix(top, "[k]"), "[]"))
		silent := top == "Indexes" || top == "VersionTag" || strings.Contains(name, ".Indexes.") || !nested && field.IsValid() && field.IsZero()
		got := Compare(filledJob(), now, false)
		if (got.Type == structs.DiffNone) != silent {
			t.Errorf("a change of %s: the difference is %s", name, got.Type)
		}
	})
	if total < 100 {
		t.Errorf("only %d fields were tried", total)
	}
}

func diffJob(edits ...func(*structs.Job)) *structs.Job {
	j := &structs.Job{
		ID:          "web",
		Datacenters: []string{"dc1"},
		Meta:        map[string]string{"a": "1"},
		TaskGroups: []*structs.TaskGroup{{
			Name:  "app",
			Count: 2,
			Volumes: map[string]*structs.VolumeRequest{
				"data": {Name: "data", Type: "csi", Source: "db", MountOptions: &structs.CSIMountOptions{
					MountFlags: []string{"password=one"},
				}},
			},
			Networks: []*structs.NetworkResource{{Mode: "host", DynamicPorts: []structs.Port{{Label: "http"}}}},
			Tasks: []*structs.Task{{
				Name:   "server",
				Driver: "exec",
				Config: map[string]any{
					"command": "/bin/web",
					"args":    []any{"-v", map[string]any{"deep": 1}},
				},
				KillTimeout: 5 * time.Second,
				Resources:   &structs.Resources{CPU: 100, MemoryMB: 64},
			}},
		}},
	}
	for _, edit := range edits {
		edit(j)
	}
	return j
}

// describeDiff writes a difference in lines.
func describeDiff(d *structs.JobDiff) string {
	var out strings.Builder
	var parts func(path string, fields []*structs.FieldDiff, objects []*structs.ObjectDiff)
	parts = func(path string, fields []*structs.FieldDiff, objects []*structs.ObjectDiff) {
		for _, f := range fields {
			fmt.Fprintf(&out, "%s%s: %s %q -> %q", path, f.Name, f.Type, f.Old, f.New)
			for _, note := range f.Annotations {
				fmt.Fprintf(&out, " (%s)", note)
			}
			fmt.Fprintln(&out)
		}
		for _, o := range objects {
			fmt.Fprintf(&out, "%s%s: %s\n", path, o.Name, o.Type)
			parts(path+o.Name+".", o.Fields, o.Objects)
		}
	}
	fmt.Fprintf(&out, "job %s: %s\n", d.ID, d.Type)
	parts("", d.Fields, d.Objects)
	for _, g := range d.TaskGroups {
		fmt.Fprintf(&out, "group %s: %s\n", g.Name, g.Type)
		parts("", g.Fields, g.Objects)
		for _, task := range g.Tasks {
			fmt.Fprintf(&out, "task %s: %s\n", task.Name, task.Type)
			parts("", task.Fields, task.Objects)
		}
	}
	return out.String()
}

func TestCompare_HasTheShapeOfTheDialect(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*structs.Job)
		want string
	}{
		"nothing": {func(*structs.Job) {}, "job web: None\n"},
		"fields of servers": {
			func(j *structs.Job) {
				j.Version = 7
				j.Status = structs.JobDead
			}, "job web: None\n",
		},
		"values of maps and lists": {
			func(j *structs.Job) {
				j.Meta = map[string]string{"b": "2"}
				j.Datacenters = []string{"dc2", "dc1"}
				j.Priority = 70
			}, `job web: Edited
Meta[a]: Deleted "1" -> ""
Meta[b]: Added "" -> "2"
Priority: Edited "0" -> "70"
Datacenters: Edited
Datacenters.Datacenters: Added "" -> "dc2"
`},
		"a task": {
			func(j *structs.Job) {
				task := j.TaskGroups[0].Tasks[0]
				task.Config = map[string]any{"command": "/bin/web", "args": []any{"-q", map[string]any{"deep": 1.0}}}
				task.KillTimeout = time.Minute
				task.Leader = true
				task.Resources.Cores = 1
			}, `job web: Edited
group app: Edited
task server: Edited
KillTimeout: Edited "5000000000" -> "60000000000" (5s => 1m0s)
Leader: Edited "false" -> "true"
Config: Edited
Config.args[0]: Edited "-v" -> "-q"
Resources: Edited
Resources.Cores: Edited "0" -> "1"
`},
		"objects of a group": {
			func(j *structs.Job) {
				g := j.TaskGroups[0]
				g.Count = 3
				g.Volumes["data"].MountOptions.MountFlags = []string{"password=two"}
				g.Volumes["more"] = &structs.VolumeRequest{Name: "more", Source: "x"}
				g.Networks = nil
				g.Constraints = []*structs.Constraint{{LTarget: "${attr.cpu.arch}", RTarget: "amd64", Operand: "="}}
			}, `job web: Edited
group app: Edited
Count: Edited "2" -> "3"
Constraint: Added
Constraint.LTarget: Added "" -> "${attr.cpu.arch}"
Constraint.Operand: Added "" -> "="
Constraint.RTarget: Added "" -> "amd64"
Network: Deleted
Network.Mode: Deleted "host" -> ""
Network.Dynamic Port: Deleted
Network.Dynamic Port.Label: Deleted "http" -> ""
Volume: Edited
Volume.MountOptions: Edited
Volume.MountOptions.MountFlags: Edited
Volume.MountOptions.MountFlags.MountFlags: Added "" -> "[REDACTED]"
Volume.MountOptions.MountFlags.MountFlags: Deleted "[REDACTED]" -> ""
Volume: Added
Volume.Name: Added "" -> "more"
Volume.Source: Added "" -> "x"
`},
		"services": {
			func(j *structs.Job) {
				j.TaskGroups[0].Services = []*structs.Service{{
					Name:         "web",
					Tags:         []string{"a"},
					Meta:         map[string]string{"k": "v"},
					CheckRestart: &structs.CheckRestart{Limit: 3},
					Checks: []*structs.ServiceCheck{{
						Name: "up", Type: structs.CheckHTTP, Interval: time.Second,
						Header:       map[string][]string{"X": {"y"}},
						CheckRestart: &structs.CheckRestart{Limit: 2, Grace: new(time.Minute)},
					}},
				}}
				j.TaskGroups[0].Tasks[0].Services = []*structs.Service{{Name: "admin"}}
			}, `job web: Edited
group app: Edited
Service: Added
Service.Meta[k]: Added "" -> "v"
Service.Name: Added "" -> "web"
Service.Check: Added
Service.Check.Interval: Added "" -> "1000000000" (1s)
Service.Check.Name: Added "" -> "up"
Service.Check.Type: Added "" -> "http"
Service.Check.CheckRestart: Added
Service.Check.CheckRestart.Grace: Added "" -> "60000000000" (1m0s)
Service.Check.CheckRestart.Limit: Added "" -> "2"
Service.Check.Header[X]: Added
Service.Check.Header[X].Header[X]: Added "" -> "y"
Service.CheckRestart: Added
Service.CheckRestart.Limit: Added "" -> "3"
Service.Tags: Added
Service.Tags.Tags: Added "" -> "a"
task server: Edited
Service: Added
Service.Name: Added "" -> "admin"
`},
		"another group": {
			func(j *structs.Job) {
				j.TaskGroups[0] = &structs.TaskGroup{Name: "other", Tasks: []*structs.Task{{Name: "t"}}}
			},
			`job web: Edited
group other: Added
task t: Added
group app: Deleted
Count: Deleted "2" -> ""
Network: Deleted
Network.Mode: Deleted "host" -> ""
Network.Dynamic Port: Deleted
Network.Dynamic Port.Label: Deleted "http" -> ""
Volume: Deleted
Volume.Name: Deleted "data" -> ""
Volume.Source: Deleted "db" -> ""
Volume.Type: Deleted "csi" -> ""
Volume.MountOptions: Deleted
Volume.MountOptions.MountFlags: Deleted
Volume.MountOptions.MountFlags.MountFlags: Deleted "[REDACTED]" -> ""
task server: Deleted
Driver: Deleted "exec" -> ""
KillTimeout: Deleted "5000000000" -> "" (5s)
Config: Deleted
Config.args[0]: Deleted "-v" -> ""
Config.args[1][deep]: Deleted "1" -> ""
Config.command: Deleted "/bin/web" -> ""
Resources: Deleted
Resources.CPU: Deleted "100" -> ""
Resources.MemoryMB: Deleted "64" -> ""
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := describeDiff(Compare(diffJob(), diffJob(c.edit), false))
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// Of two templates of a task the one that has changed is shown, not both versions of it.
func TestCompare_PairsTemplatesByTheirDestinations(t *testing.T) {
	with := func(texts ...string) *structs.Job {
		return diffJob(func(j *structs.Job) {
			for i, text := range texts {
				x := &structs.Template{DestPath: fmt.Sprint("local/", i), EmbeddedTmpl: text}
				j.TaskGroups[0].Tasks[0].Templates = append(j.TaskGroups[0].Tasks[0].Templates, x)
			}
		})
	}
	want := `job web: Edited
group app: Edited
task server: Edited
Template: Edited
Template.EmbeddedTmpl: Edited "old" -> "new"
`
	if got := describeDiff(Compare(with("old", "old"), with("old", "new"), false)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCompare_OfANewJobAndWithEqualFields(t *testing.T) {
	added := Compare(nil, diffJob(), false)
	if added.Type != structs.DiffAdded || added.TaskGroups[0].Type != structs.DiffAdded {
		t.Errorf("a new job: %s", describeDiff(added))
	}
	got := describeDiff(Compare(diffJob(), diffJob(func(j *structs.Job) { j.Priority = 3 }), true))
	for _, line := range []string{"task server: None", `Priority: Edited "0" -> "3"`} {
		if !strings.Contains(got, line) {
			t.Errorf("the line %s is missing in\n%s", line, got)
		}
	}
	for _, line := range []string{"Meta", "Datacenters", "Config", "Volume"} {
		if strings.Contains(got, line) {
			t.Errorf("the equal part %s is in\n%s", line, got)
		}
	}
	got = describeDiff(Compare(diffJob(), diffJob(func(j *structs.Job) {
		v := j.TaskGroups[0].Volumes["data"]
		v.ReadOnly = true
		v.MountOptions.MountFlags = append(v.MountOptions.MountFlags, "ro")
	}), true))
	for _, line := range []string{`Volume.Name: None`, `Volume.ReadOnly: Edited "false" -> "true"`,
		"MountFlags: None", `Volume.PerAlloc: None "false" -> "false"`, `Volume.AccessMode: None "" -> ""`} {
		if !strings.Contains(got, line) {
			t.Errorf("the line %s is missing in\n%s", line, got)
		}
	}
	if strings.Contains(got, "password") {
		t.Error("a mount flag is shown")
	}
}

// sidecarJob returns a job whose service has a sidecar with an upstream.
func sidecarJob() *structs.Job {
	proxy := &structs.ConnectProxy{
		Upstreams: []*structs.ConnectUpstream{{DestinationName: "api", LocalBindPort: 9001}},
	}
	j := &structs.Job{
		ID: "shop",
		TaskGroups: []*structs.TaskGroup{{
			Name:     "web",
			Count:    1,
			Networks: []*structs.NetworkResource{{Mode: structs.NetworkModeBridge}},
			Tasks:    []*structs.Task{{Name: "server", Driver: "exec"}},
			Services: []*structs.Service{{
				Name:      "front",
				PortLabel: "8080",
				Connect:   &structs.Connect{SidecarService: &structs.SidecarService{Proxy: proxy}},
			}},
		}},
	}
	defaults.Canonicalize(j)
	return j
}

func TestCompare_ShowsConnect(t *testing.T) {
	old := sidecarJob()
	now := sidecarJob()
	u := now.TaskGroups[0].Services[0].Connect.SidecarService.Proxy.Upstreams[0]
	u.LocalBindPort = 9002
	g := now.TaskGroups[0]
	g.Networks[0].DynamicPorts = []structs.Port{{Label: "connect-proxy-front"}}
	g.Tasks = append(g.Tasks, &structs.Task{Name: "connect-proxy-front", Kind: "connect-proxy:front"})
	text, _ := json.Marshal(Compare(old, now, false))
	for _, want := range []string{
		`{"Type":"Edited","Name":"LocalBindPort","Old":"9001","New":"9002","Annotations":null}`,
		`"Name":"connect-proxy-front"`,
		`"Name":"Dynamic Port"`,
		`{"Type":"Added","Name":"Kind","Old":"","New":"connect-proxy:front","Annotations":null}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the difference lacks %s\n%s", want, text)
		}
	}
}

// A change of the bounds is a change of the job, and shows as one block in a difference.
func TestCompare_ShowsScaling(t *testing.T) {
	job := func(most int64) *structs.Job {
		j := &structs.Job{ID: "j", Type: structs.JobService, TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Count: 1,
			Scaling: &structs.ScalingPolicy{
				Max:    &most,
				Policy: map[string]any{"cooldown": "1m"},
			},
		}}}
		defaults.Canonicalize(j)
		return j
	}
	diff := Compare(job(3), job(5), false)
	objects := diff.TaskGroups[0].Objects
	if len(objects) != 1 || objects[0].Name != "Scaling" || len(objects[0].Fields) != 1 ||
		objects[0].Fields[0].Name != "Max" || objects[0].Fields[0].New != "5" {
		t.Errorf("the difference is %+v", objects)
	}
	bare := job(3)
	bare.TaskGroups[0].Scaling = nil
	for _, f := range Compare(bare, job(3), false).TaskGroups[0].Objects[0].Fields {
		if f.Name == "ID" || f.Name == "CreateIndex" || f.Name == "ModifyIndex" {
			t.Errorf("the difference has the field %s = %q of the servers", f.Name, f.New)
		}
	}
}
