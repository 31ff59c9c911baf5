package jobspec

import (
	"testing"

	"berth/structs"
)

// TestReadJob_MergesVaultBlocks reads the block at its three places: each one changes those around it.
func TestReadJob_MergesVaultBlocks(t *testing.T) {
	j, err := parseJob("j.hcl", []byte(`job "j" {
  vault {
    role        = "all"
    namespace   = "team"
    change_mode = "noop"
  }
  group "g" {
    vault {
      role = "group"
      env  = false
    }
    task "plain" { driver = "exec" }
    task "own" {
      driver = "exec"
      vault {
        namespace     = ""
        disable_file  = true
        change_mode   = "signal"
        change_signal = "SIGUSR1"
      }
    }
    task "former" {
      driver = "exec"
      vault {
        file                   = false
        env                    = true
        allow_token_expiration = true
      }
    }
  }
  task "outside" { driver = "exec" }
}`))
	if err != nil {
		t.Fatal(err)
	}

	for task, want := range map[string]structs.Vault{
		"plain": {Role: "group", Namespace: "team", ChangeMode: "noop", Env: new(false)},
		"own": {Role: "group", DisableFile: true, ChangeMode: "signal", ChangeSignal: "SIGUSR1",
			Env: new(false)},
		"former": {Role: "group", Namespace: "team", ChangeMode: "noop", DisableFile: true,
			AllowTokenExpiration: true, Env: new(true)},
		"outside": {Role: "all", Namespace: "team", ChangeMode: "noop", Env: new(true)},
	} {
		g := j.Group("g")
		if task == "outside" {
			g = j.Group(task)
		}

		got := *g.Task(task).Vault
		if structs.HasVaultEnv(&got) != structs.HasVaultEnv(&want) {
			t.Errorf("%s: env is %v", task, structs.HasVaultEnv(&got))
		}

		got.Env = nil
		want.Env = nil
		if got != want {
			t.Errorf("%s: got %+v, want %+v", task, got, want)
		}
	}
}

// TestReadJob_GivesConsulToItsTasks: a task has its own block, and a group that of the job.
func TestReadJob_GivesConsulToItsTasks(t *testing.T) {
	j, err := parseJob("j.hcl", []byte(`job "j" {
  consul {}
  group "g" {
    task "plain" { driver = "exec" }
    task "own" {
      driver = "exec"
      consul {}
    }
  }
}`))
	if err != nil {
		t.Fatal(err)
	}

	g := j.Group("g")
	if g.Consul == nil || g.Task("own").Consul == nil || g.Task("plain").Consul != nil {
		t.Errorf("got %v, %v, %v", g.Consul, g.Task("own").Consul, g.Task("plain").Consul)
	}
}
