package taskrunner

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/client/drivers/driver"
	"berth/internal/placeholder"
	"berth/structs"
)

func TestTaskVariables_ExpandReferences(t *testing.T) {
	alloc := testAlloc("web")
	alloc.Job.Meta = map[string]string{"owner": "job", "tier": "job"}
	g := alloc.Job.TaskGroups[0]
	g.Meta = map[string]string{"tier": "group"}
	task := g.Tasks[0]
	task.Meta = map[string]string{
		"a-b":   "task",
		"where": "${meta.rack} of ${NOMAD_DC}, ${NOMAD_META_owner}",
	}
	task.Resources = &structs.Resources{CPU: 500, MemoryMB: 64}
	task.Env = map[string]string{
		"HOME":      "${NOMAD_TASK_DIR}/home",
		"NODE":      "${node.unique.name}/${attr.kernel.name}/${meta.rack}",
		"PLACE":     "${node.region} ${NOMAD_META_where}",
		"SHELL_VAR": "${unknown}",
	}
	node := &structs.Node{
		ID:         "n1",
		Name:       "node1",
		Datacenter: "dc1",
		NodeClass:  "big",
		Attributes: map[string]string{"kernel.name": "linux"},
		Meta:       map[string]string{"rack": "r1"},
	}
	env, vars := taskFacts{alloc, g, task, node, driver.Inside, "global", nil}.variables()
	for _, name := range []string{"NOMAD_", "BERTH_"} {
		for k, want := range map[string]string{
			"ALLOC_ID": "alloc1", "ALLOC_NAME": "job.g[0]", "ALLOC_INDEX": "0", "TASK_NAME": "web", "GROUP_NAME": "g",
			"JOB_ID": "job", "JOB_NAME": "job", "ALLOC_DIR": "/alloc", "TASK_DIR": "/local", "SECRETS_DIR": "/secrets",
			"NAMESPACE": "default", "DC": "dc1", "REGION": "global", "CPU_LIMIT": "500", "MEMORY_LIMIT": "64",
			"META_owner": "job", "META_TIER": "group", "META_a_b": "task", "META_A_B": "task",
			"META_where": "r1 of dc1, ${NOMAD_META_owner}",
		} {
			if got := env[name+k]; got != want {
				t.Errorf("%s%s = %q, want %q", name, k, got, want)
			}
		}
	}
	for in, want := range map[string]string{
		"${NOMAD_ALLOC_ID}/x": "alloc1/x", "${ node.class }": "big", "${env.HOME}": "/local/home",
		"${HOME}":      "/local/home",
		"${PLACE}":     "global r1 of dc1, ${NOMAD_META_owner}",
		"${NODE}":      "node1/linux/r1",
		"${SHELL_VAR}": "${unknown}", "$NOMAD_ALLOC_ID": "$NOMAD_ALLOC_ID", "${": "${",
		"plain": "plain",
	} {
		if got := vars.expand(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
	in := map[string]any{
		"args":        []any{"${NOMAD_JOB_ID}", 1, true},
		"m":           map[string]any{"k": "${JOB}"},
		"deep":        []any{map[string]any{"x": map[string]any{"y": "${NOMAD_DC}"}}},
		"${NOMAD_DC}": nil,
	}
	want := map[string]any{
		"args":        []any{"job", 1, true},
		"m":           map[string]any{"k": "${JOB}"},
		"deep":        []any{map[string]any{"x": map[string]any{"y": "dc1"}}},
		"${NOMAD_DC}": nil,
	}
	if got := placeholder.InValues(in, vars.expand); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if placeholder.InValues(nil, vars.expand) != nil {
		t.Error("a nil config does not stay nil")
	}
}

func TestTaskVariables_OfPorts(t *testing.T) {
	alloc := testAlloc("web")
	g := alloc.Job.TaskGroups[0]
	task := g.Tasks[0]
	task.Env = map[string]string{
		"LISTEN": "${NOMAD_IP_http}:${env.NOMAD_PORT_http}",
		"SAME":   `${env["BERTH_HOST_PORT_web_admin"]} ${ env "NOMAD_PORT_http" } ${NOMAD_HOST_ADDR_web-admin}`,
		"LATER":  `${env["NOMAD_PORT_none"]} ${env "none"} ${meta["x"]}`,
	}
	alloc.Ports = []structs.AllocatedPort{
		{Label: "http", Value: 20000, To: 80, HostIP: "10.0.0.1"},
		{Label: "web-admin", Value: 8080, HostIP: "fd00::1"},
	}
	env, vars := taskFacts{alloc, g, task, &structs.Node{}, driver.Inside, "global", nil}.variables()
	for _, prefix := range envPrefixes {
		for name, want := range map[string]string{
			"PORT_http": "80", "ALLOC_PORT_http": "80", "HOST_PORT_http": "20000", "IP_http": "10.0.0.1",
			"HOST_IP_http": "10.0.0.1", "ADDR_http": "10.0.0.1:20000", "HOST_ADDR_http": "10.0.0.1:20000",
			"PORT_web_admin": "8080", "ALLOC_PORT_web_admin": "8080", "HOST_PORT_web_admin": "8080",
			"IP_web_admin": "fd00::1", "ADDR_web_admin": "[fd00::1]:8080",
		} {
			if got := env[prefix+name]; got != want {
				t.Errorf("%s%s = %q, want %q", prefix, name, got, want)
			}
		}
		if _, has := env[prefix+"PORT_web-admin"]; has {
			t.Errorf("%sPORT_web-admin is no name of a variable", prefix)
		}
	}
	for name, want := range map[string]string{
		"LISTEN": "10.0.0.1:80",
		"SAME":   "8080 80 [fd00::1]:8080",
		"LATER":  `${env["NOMAD_PORT_none"]} ${env "none"} ${meta["x"]}`,
	} {
		if env[name] != want {
			t.Errorf("%s = %q, want %q", name, env[name], want)
		}
	}
	config := placeholder.InValues(
		map[string]any{"args": []any{"${NOMAD_ADDR_http}", `${env["LISTEN"]}`}}, vars.expand)
	if want := []any{"10.0.0.1:20000", "10.0.0.1:80"}; !reflect.DeepEqual(config["args"], want) {
		t.Errorf("got %v", config["args"])
	}
}

// A child of a periodic or a parameterized job has the ID of its parent, also for the references to it.
func TestTaskVariables_NameTheParent(t *testing.T) {
	alloc := testAlloc("web")
	g := alloc.Job.TaskGroups[0]
	facts := taskFacts{alloc, g, g.Tasks[0], &structs.Node{}, driver.Inside, "global", nil}
	env, vars := facts.variables()
	const reference = "${NOMAD_JOB_PARENT_ID}"
	if _, has := env["NOMAD_JOB_PARENT_ID"]; has || vars.expand(reference) != reference {
		t.Error("a job without a parent has the ID of one")
	}
	alloc.Job.ParentID = "parent"
	env, vars = facts.variables()
	for _, prefix := range envPrefixes {
		name := prefix + "JOB_PARENT_ID"
		if env[name] != "parent" || vars.expand("${"+name+"}") != "parent" {
			t.Errorf("%s is %q, and %q as a reference", name, env[name], vars.expand("${"+name+"}"))
		}
	}
}

// TestDocs_ListTheVariables compares the tables of variables in docs/jobs.md with the code.
func TestDocs_ListTheVariables(t *testing.T) {
	alloc := testAlloc("web")
	alloc.Job.ParentID = "parent"
	alloc.Job.Meta = map[string]string{"KEY": "value"}
	alloc.Ports = []structs.AllocatedPort{{Label: "LABEL"}}
	g := alloc.Job.TaskGroups[0]
	g.Tasks[0].Resources = &structs.Resources{MemoryMaxMB: 1}
	node := &structs.Node{
		Attributes: map[string]string{"NAME": "value"},
		Meta:       map[string]string{"NAME": "value"},
	}
	env, vars := taskFacts{alloc, g, g.Tasks[0], node, driver.Inside, "global", nil}.variables()
	want := map[string]bool{}
	for name := range env {
		if short, ok := strings.CutPrefix(name, "NOMAD_"); ok {
			want[short] = true
		}
	}
	for name := range vars {
		_, isEnv := env[name]
		if !isEnv && !strings.HasPrefix(name, "env.") {
			want[name] = true
		}
	}
	src, err := os.ReadFile("../../../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(src), "## Variables of tasks\n")
	section, _, _ = strings.Cut(section, "\n## ")
	got := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			got[name[1]] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("docs/jobs.md lists %q, the code has %q", slices.Sorted(maps.Keys(got)),
			slices.Sorted(maps.Keys(want)))
	}
}

func FuzzExpand(f *testing.F) {
	v := variables{"a": "${b}", "b": "x"}
	for _, s := range []string{"${a}", "${${a}}", "${", "}${b", "$${a}", "${ a }${c}", `${env["a"]}${env "a"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := v.expand(s)
		if !strings.Contains(s, "${") && got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}
