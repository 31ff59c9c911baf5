package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// agentThatFitsOne starts an agent with the shelf plugin, on which service jobs may displace others. One
// big job fits there.
func agentThatFitsOne(t *testing.T) (*shelfDir, *agent) {
	t.Helper()
	st := newStorage(t)
	a := newAgent(t, "one", "-server", "-client").allowRaw()
	a.args = append(a.args, "-config", a.writeFile("small.hcl", "client {\n  memory_total_mb = 1000\n}\n"))
	a.start()
	a.must("operator", "scheduler", "set-config", "-preempt-service-scheduler=true")
	a.must("job", "run", "-detach", st.writePluginJob(a, "shelf", "system", "monolith"))
	a.healthyNodes("shelf", 1)
	return st, a
}

// bigJob is a job with a volume of the same name and with most of the memory of the node.
func (a *agent) bigJob(name string, priority int, script string) string {
	return a.writeFile(name+".hcl", fmt.Sprintf(`
job %q {
  priority = %d
  group "g" {
    volume "v" {
      type            = "csi"
      source          = %[1]q
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver       = "exec"
      kill_timeout = "%[4]s"
      config {
        command = "/bin/sh"
        args    = ["-c", %[3]q]
      }
      volume_mount {
        volume      = "v"
        destination = "/data"
      }
      resources {
        cpu    = 20
        memory = 600
      }
    }
  }
}
`, name, priority, script, victimTimeout))
}

// awaitWait waits until the status of an allocation says that it waits for another one.
func (a *agent) awaitWait(alloc, other string) {
	a.t.Helper()
	reason := fmt.Sprintf("waits for the end of allocation %s (on this node)", other)
	eventually(a.t, "the status says "+reason, func() error {
		out, err := a.run("alloc", "status", alloc)
		if err == nil && !strings.Contains(out, reason) {
			err = fmt.Errorf("it is\n%s", out)
		}
		return err
	})
	row := decode[structs.Allocation](a.t, a.must("alloc", "status", "-json", alloc))
	if row.ClientStatus != structs.AllocPending || !row.TaskStates["t"].StartedAt.IsZero() {
		a.t.Errorf("the allocation is %s, its task %+v", row.ClientStatus, row.TaskStates["t"])
	}
}

// lastCall returns the position of the last call of an RPC for a volume, -1 if there is none.
func (st *shelfDir) lastCall(rpc, volume string) int {
	return strings.LastIndex(st.read("calls"), rpc+" shelf-"+volume+" OK")
}

// A victim that ends only when it is killed, and whose volume is then unmounted late, keeps its successor
// waiting, also over a crash of the agent. The successor is prepared when nothing of the victim is left.
func TestPreemption_WaitsForAVictimThatRejectsToEnd(t *testing.T) {
	t.Parallel()
	st, a := agentThatFitsOne(t)
	st.createVolume(a, "low", 300)
	st.createVolume(a, "high", 300)
	const stubborn = "trap '' TERM INT; echo up; while :; do sleep 0.1; echo low >> /data/words; done"
	a.must("job", "run", "-detach", a.bigJob("low", 20, stubborn))
	victim := a.awaitRunning("low", 1)[0].ID
	a.awaitOutput(victim, "up")
	release := st.holdCalls("NodeUnpublishVolume", "before")
	a.must("job", "run", "-detach",
		a.bigJob("high", 70, "echo high > /data/words; cat /data/words; exec sleep 86400"))

	high := a.awaitAlloc("high")
	a.awaitWait(high, victim)
	a.checkRejection(victim, high)
	a.checkPreemption(high, victim)
	st.awaitHeldCall("NodeUnpublishVolume")
	a.kill()
	a.start()
	a.awaitWait(high, victim)
	if at := st.mounts(a, "mount"); len(at) != 1 || at[0] != "low one" {
		t.Errorf("while the plugin holds the volume of the victim, mounted are %v", at)
	}
	release()
	a.awaitOutput(high, "high\n")
	if claims, err := a.claims("low"); err != nil || len(claims) > 0 {
		t.Errorf("the claims of the victim: %+v, %v", claims, err)
	}
	if at := append(st.mounts(a, "stage"), st.mounts(a, "mount")...); len(at) != 2 || at[0] != "high one" {
		t.Errorf("mounted are %v, want the volume of the successor alone", at)
	}
	end := st.lastCall("NodeUnstageVolume", "low")
	if end < 0 || st.lastCall("NodeStageVolume", "high") < end {
		t.Error("the volume of the successor was staged before that of the victim was unstaged")
	}
	a.awaitRunning("high", 1)
	a.checkLateEnd(victim, high)
	a.must("job", "stop", "-purge", "low")
	a.must("job", "stop", "-purge", "high")
	a.awaitFree("high")
	a.must("job", "stop", "-purge", "shelf")
	st.checkCallOrder()
}

// victimTimeout is the kill_timeout of a bigJob.
const victimTimeout = 4 * time.Second

// checkRejection checks that processes run of the victim, unless its kill_timeout may be over, and that none
// run of its successor.
func (a *agent) checkRejection(victim, successor string) {
	a.t.Helper()
	s := decode[structs.Allocation](a.t, a.must("alloc", "status", "-json", successor))
	work := a.allocsAtWork()
	mayHaveEnded := time.Since(time.Unix(0, s.CreateTime)) >= victimTimeout
	if work[successor] || !work[victim] && !mayHaveEnded {
		a.t.Errorf("while the victim does not end, processes run of %v", work)
	}
}

// checkPreemption checks that both allocations name the other one.
func (a *agent) checkPreemption(successor, victim string) {
	a.t.Helper()
	for _, c := range []struct{ alloc, want string }{
		{victim, "Preempted by alloc ID " + successor},
		{successor, victim[:8]},
	} {
		if out := a.must("alloc", "status", c.alloc); !strings.Contains(out, c.want) {
			a.t.Errorf("the status does not say %q:\n%s", c.want, out)
		}
	}
}

// checkLateEnd checks that the victim was given its kill_timeout, and that the successor began after it.
func (a *agent) checkLateEnd(victim, successor string) {
	a.t.Helper()
	v := decode[structs.Allocation](a.t, a.must("alloc", "status", "-json", victim))
	s := decode[structs.Allocation](a.t, a.must("alloc", "status", "-json", successor))
	ended := v.TaskStates["t"].FinishedAt
	placed := time.Unix(0, s.CreateTime)
	if took := ended.Sub(placed); took < victimTimeout {
		a.t.Errorf("the victim ended %s after the placement of its successor, want its kill_timeout", took)
	}
	if begun := s.TaskStates["t"].StartedAt; !begun.After(ended) {
		a.t.Errorf("the successor began at %s, the victim ended at %s", begun, ended)
	}
}
