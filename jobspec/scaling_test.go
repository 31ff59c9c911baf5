package jobspec

import (
	"encoding/json"
	"testing"
)

func TestParseJob_ReadsScaling(t *testing.T) {
	const src = `job "j" {
  group "g" {
    scaling {
      min     = 2
      max     = 5
      enabled = false
      policy {
        cooldown = "1m"
        check "load" {
          source = "prometheus"
          strategy "target-value" {
            target = 70
          }
        }
      }
    }
    task "t" {
      driver = "exec"
    }
  }
}
`
	job, err := parseJob("j.hcl", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	g := job.TaskGroups[0]
	if g.Count != 2 {
		t.Errorf("the count is %d, not min", g.Count)
	}
	got, err := json.Marshal(g.Scaling)
	if err != nil {
		t.Fatal(err)
	}
	// An autoscaler of the dialect expects a list of blocks below each label.
	const want = `{"Min":2,"Max":5,"Policy":{"check":[{"load":[{"source":"prometheus",` +
		`"strategy":[{"target-value":[{"target":70}]}]}]}],"cooldown":"1m"},"Enabled":false,` +
		`"CreateIndex":0,"ModifyIndex":0}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
