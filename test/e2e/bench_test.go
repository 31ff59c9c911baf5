package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"berth/internal/pki/pkitest"
	"berth/structs"
)

// BenchmarkFirstWrite measures from `job run` of a job with a volume to the first line on the volume:
// scheduling, claim, stage, publish, start of the task. The plugin runs and the volume exists before. It also
// reports the memory of an agent with only server, node and plugin, and the size of the binary.
func BenchmarkFirstWrite(b *testing.B) {
	a := agentWithPlugin(b)
	a.createVolume(volumeFile{id: "bench"})
	path := a.writeJob(jobFile{
		name:   "bench",
		uses:   []volumeUse{{source: "bench", at: "/data"}},
		script: "date +%s%N > /data/at; cat /data/at; sleep 1000",
	})
	idle := residentBytes(b, a.cmd.Process.Pid)
	firstWrites(b, a, path)
	b.ReportMetric(float64(idle)/(1<<20), "idle-MiB")
	info, err := os.Stat(binary)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/(1<<20), "binary-MiB")
}

// firstWrites runs the job of a file again and again and reports the mean time until it writes.
func firstWrites(b *testing.B, a *agent, path string) {
	b.Helper()
	var total time.Duration
	for b.Loop() {
		began := time.Now()
		a.must("job", "run", "-detach", path)
		total += firstWrite(b, a, began)
		b.StopTimer()
		a.must("job", "stop", "-purge", "bench")
		a.awaitFree("bench")
		b.StartTimer()
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "first-write-ms")
}

// BenchmarkFirstWriteOfAClass measures in turn the first write of a job with a volume that exists, and of one
// with a class, whose volume the servers create first. It reports both means, and the difference.
func BenchmarkFirstWriteOfAClass(b *testing.B) {
	a := agentWithPlugin(b)
	a.createVolume(volumeFile{id: "bench"})
	a.must("volume", "class", "apply", a.writeFile("class.hcl", `
name      = "fast"
plugin_id = "hostpath"
binding   = "first-consumer"
`))
	existing := jobFile{
		name:   "bench",
		uses:   []volumeUse{{source: "bench", at: "/data"}},
		script: "date +%s%N > /data/at; cat /data/at; sleep 1000",
	}.hcl()
	created := strings.Replace(existing, `source = "bench"`, "class = \"fast\"\nsize = \"16MiB\"", 1)
	sides := []struct {
		path, volume string
		total        time.Duration
	}{
		{path: a.writeFile("existing.hcl", existing), volume: "bench"},
		{path: a.writeFile("created.hcl", created), volume: "bench.g.v0"},
	}
	rounds := 0
	for b.Loop() {
		rounds++
		for i := range sides {
			s := &sides[i]
			began := time.Now()
			a.must("job", "run", "-detach", s.path)
			s.total += firstWrite(b, a, began)
			a.must("job", "stop", "-purge", "bench")
			a.awaitFree(s.volume)
		}
		a.mustEventually("volume", "delete", sides[1].volume)
	}
	mean := func(i int) float64 { return float64(sides[i].total.Microseconds()) / 1000 / float64(rounds) }
	b.ReportMetric(mean(0), "existing-ms")
	b.ReportMetric(mean(1), "class-ms")
	b.ReportMetric(mean(1)-mean(0), "more-ms")
}

// BenchmarkFirstWriteOfANode is BenchmarkFirstWrite with a node that is no server, without TLS and then
// with it.
func BenchmarkFirstWriteOfANode(b *testing.B) {
	c := &closing{
		upgrade:   upgrade{testCluster: newServersOf(b, binary, 1)},
		authority: pkitest.New(b, "global"),
		configs:   map[*agent]string{},
	}
	s := c.servers[0]
	n := c.addNode()
	n.ready = c.nodeReady
	n.start()
	s.must("job", "run", example(b, "hostpath.hcl"))
	s.healthyNodes("hostpath", 1)
	s.createVolume(volumeFile{id: "bench"})
	path := s.writeJob(jobFile{
		name:   "bench",
		uses:   []volumeUse{{source: "bench", at: "/data"}},
		script: "date +%s%N > /data/at; cat /data/at; sleep 1000",
	})
	b.Run("plain", func(b *testing.B) { firstWrites(b, s, path) })
	for _, a := range []*agent{s, n} {
		c.setMode(a, "require")
	}
	s.healthyNodes("hostpath", 1)
	b.Run("TLS", func(b *testing.B) { firstWrites(b, s, path) })
}

// firstWrite waits for the job's line and returns how long after began it was written.
func firstWrite(b *testing.B, a *agent, began time.Time) time.Duration {
	b.Helper()
	for time.Since(began) < time.Minute {
		allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/bench/allocations")
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range allocs {
			var at int64
			if s.DesiredStatus != structs.AllocDesiredRun {
				continue
			}
			if _, err := fmt.Sscanf(a.logs(s.ID), "%d", &at); err == nil {
				return time.Unix(0, at).Sub(began)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.Fatal("no line was written")
	return 0
}

// residentBytes is the resident memory of a process.
func residentBytes(b *testing.B, pid int) (kib int64) {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// BenchmarkAgentStart measures from the start of a server's and node's process to a node that is ready.
func BenchmarkAgentStart(b *testing.B) {
	a := newAgent(b, "one", "-server", "-client")
	for b.Loop() {
		a.start()
		b.StopTimer()
		a.stop()
		b.StartTimer()
	}
}
