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
quota       = "team"
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
	const want = `{"Name":"prod","Description":"Production","Meta":{"owner":"storage"},"Quota":"team","Capabilities":{` +
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

func TestReadQuota_ReadsAllFields(t *testing.T) {
	got, err := ReadQuota("q.hcl", []byte(`
name        = "team"
description = "Ours"
limit {
  region = "global"
  region_limit {
    cores       = 0
    cpu         = 2500
    memory      = 1000
    memory_max  = 2000
    allocations = -1
    device "nvidia/gpu" {
      count = 2
    }
    storage {
      volumes = 5
      bytes   = "1 KiB"
      plugin "ssd" {
        volumes = 3
        bytes   = 100
      }
      class "fast" {
        volumes = 2
        bytes   = "1 KiB"
      }
    }
  }
}
`))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(got.Content.Limits[0].RegionLimit)
	const want = `{"CPU":2500,"MemoryMB":1000,"MemoryMaxMB":2000,"Allocations":-1,` +
		`"Devices":[{"Name":"nvidia/gpu","Count":2}],"Storage":{"Volumes":5,"VolumeBytes":1024,` +
		`"Of":[{"Kind":"plugin","Name":"ssd","Volumes":3,"Bytes":100},` +
		`{"Kind":"class","Name":"fast","Volumes":2,"Bytes":1024}]}}`
	if string(text) != want || got.Content.Name != "team" || got.Content.Limits[0].Region != "global" {
		t.Errorf("got %+v with %s, want %s", got.Content, text, want)
	}
}

func TestReadDefinitions_RejectWithPositions(t *testing.T) {
	namespace := func(src string) error {
		_, err := ReadNamespace("f", []byte(src))
		return err
	}
	quota := func(src string) error {
		_, err := ReadQuota("f", []byte(src))
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
		{namespace, "name = \"a\"\nvault {}", `f:2,1: "vault" is not supported by berth yet`},
		{quota, `description = "x"`, `"name"`},
		{quota, "name = \"a\"\nlimit {\n  variables_limit = 1\n}", `f:3,3: "variables_limit" is not supported`},
		{quota, "name = \"a\"\nlimit {\n  region_limit {\n    cores = 4\n  }\n}", `f:4,13`},
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
