package jobspec

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestReadNamespace_ReadsAllFields(t *testing.T) {
	got, err := ReadNamespace("n.hcl", []byte(`
name        = "prod"
description = "Production"
meta {
  owner = "storage"
}
capabilities {
  enabled_task_drivers  = ["exec", "docker"]
  disabled_task_drivers = ["raw_exec"]
}
`))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(got.Content)
	const want = `{"Name":"prod","Description":"Production","Meta":{"owner":"storage"},"Capabilities":{` +
		`"EnabledTaskDrivers":["exec","docker"],"DisabledTaskDrivers":["raw_exec"]},"CreateIndex":0,"ModifyIndex":0}`
	if string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

func TestReadNodePool_ReadsAllFields(t *testing.T) {
	got, err := ReadNodePool("p.hcl", []byte(`
node_pool "gpu" {
  description = "Nodes with a GPU"
  meta = { rack = "r1" }
  scheduler_config {
    scheduler_algorithm             = "spread"
    memory_oversubscription_enabled = false
  }
}
`))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(got.Content)
	const want = `{"Name":"gpu","Description":"Nodes with a GPU","Meta":{"rack":"r1"},"SchedulerConfiguration":{` +
		`"SchedulerAlgorithm":"spread","MemoryOversubscriptionEnabled":false},"CreateIndex":0,"ModifyIndex":0}`
	if string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

func TestReadDefinitions_RejectWithPositions(t *testing.T) {
	namespace := func(src string) error {
		_, err := ReadNamespace("f", []byte(src))
		return err
	}
	pool := func(src string) error {
		_, err := ReadNodePool("f", []byte(src))
		return err
	}
	for _, c := range []struct {
		parse     func(string) error
		src, says string
	}{
		{namespace, `description = "x"`, `"name"`},
		{namespace, "name = \"a\"\nquota = \"q\"", `f:2,1: "quota" is not supported by berth yet`},
		{namespace, "name = \"a\"\ncapabilities {\n enabled = 1\n}", `f:3,2`},
		{pool, `description = "x"`, `f:1,1`},
		{pool, ``, `f:1,1: the file has no block node_pool "NAME"`},
		{pool, "node_pool \"p\" {\n  node_identity_ttl = \"1h\"\n}", `f:2,3: "node_identity_ttl" is not supported`},
	} {
		err := c.parse(c.src)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: got %v, want %q", c.src, err, c.says)
		}
	}
}
