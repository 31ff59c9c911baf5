package e2e

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/client/machine"
)

// panel is a line of testdata/dashboards.txt.
type panel struct {
	metric string
	labels []string
	reader string
}

func readPanels(t *testing.T) (all []panel) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "dashboards.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 3 {
			t.Fatalf("%q has not three parts", line)
		}
		all = append(all, panel{parts[0], strings.Fields(parts[1]), parts[2]})
	}
	return all
}

// sample is one line of an answer for Prometheus.
type sample struct {
	labels map[string]string
	value  float64
}

// scrape returns the samples of an agent by name.
func (a *agent) scrape() map[string][]sample {
	a.t.Helper()
	all := map[string][]sample{}
	lines := bufio.NewScanner(strings.NewReader(a.must("operator", "metrics", "-format", "prometheus")))
	for lines.Scan() {
		series, text, _ := cutLast(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.HasPrefix(series, "#") {
			continue
		}
		name, rest, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		s := sample{map[string]string{}, value}
		for _, pair := range strings.Split(rest, `",`) { // no label of this test has a quote
			label, text, _ := strings.Cut(pair, `="`)
			s.labels[label] = strings.TrimSuffix(text, `"`)
		}
		all[name] = append(all[name], s)
	}
	return all
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// find returns the values of the samples that have all labels, given as name and value in turn.
func find(all []sample, labels ...string) (values []float64) {
	for _, s := range all {
		matches := true
		for i := 0; i < len(labels); i += 2 {
			matches = matches && s.labels[labels[i]] == labels[i+1]
		}
		if matches {
			values = append(values, s.value)
		}
	}
	return values
}

// lacking names the panels of which an answer lacks the metric or a label.
func lacking(panels []panel, all map[string][]sample) (faults []string) {
	for _, p := range panels {
		whole := slices.ContainsFunc(all[p.metric], func(s sample) bool {
			return !slices.ContainsFunc(p.labels, func(l string) bool { return s.labels[l] == "" })
		})
		if !whole {
			faults = append(faults, fmt.Sprintf("%s%v (%s)", p.metric, p.labels, p.reader))
		}
	}
	return faults
}

// dashboardJobs are a task that holds 64 MiB of memory, one that has ended, and one that no node can take.
const dashboardJobs = `
job "%s" {
  type = "%s"
  group "g" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 1
      delay    = "1s"
      interval = "1h"
      mode     = "fail"
    }
    ephemeral_disk {
      size = 30
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "%s"]
      }
      resources {
        cpu    = %d
        memory = 128
      }
    }
  }
}
`

// Public dashboards of the dialect find their metrics and labels, and the values are those of the tasks.
func TestDashboards_FindTheirMetrics(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.args = append(a.args, "-config", a.writeFile("telemetry.hcl", `
telemetry {
  collection_interval        = "1s"
  publish_allocation_metrics = true
  publish_node_metrics       = true
}
`))
	a.start()
	for _, j := range []struct {
		name, kind, script string
		cpu                int
	}{
		{"holds", "service", "(head -c 67108864 /dev/zero; sleep 86400) | tail -c 67108864", 100},
		{"ends", "batch", "true", 50},
		{"fails", "batch", "exit 3", 50},
		{"large", "service", "sleep 86400", 9999999},
	} {
		text := fmt.Sprintf(dashboardJobs, j.name, j.kind, j.script, j.cpu)
		a.must("job", "run", "-detach", a.writeFile(j.name+".hcl", text))
	}
	a.mustFail(4, nil, "operator", "api", "/v1/job/nothing")

	panels := readPanels(t)
	disks, err := machine.Disks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(disks) == 0 {
		t.Log("this machine has no file system on a device, so nothing tells of disks")
		panels = slices.DeleteFunc(panels, func(p panel) bool { return slices.Contains(p.labels, "disk") })
	}
	var all map[string][]sample
	eventually(t, "the metrics of all panels", func() error {
		all = a.scrape()
		if faults := lacking(panels, all); len(faults) > 0 {
			return fmt.Errorf("missing: %s", strings.Join(faults, "; "))
		}
		return dashboardValues(all)
	})
	if out := a.must("operator", "metrics"); !strings.Contains(out, "nomad.client.allocs.memory.rss") ||
		!strings.Contains(out, "nomad.nomad.job_summary.running") {
		t.Errorf("the JSON lacks the metrics of the dialect: %s", out)
	}
	for _, job := range []string{"holds", "ends", "fails", "large"} {
		a.must("job", "stop", "-purge", "-detach", job)
	}
}

// dashboardValues compares some of the samples with what is known of the jobs.
func dashboardValues(all map[string][]sample) error {
	const mib = 1 << 20
	for _, w := range []struct {
		metric      string
		least, most float64
		labels      []string
	}{
		{"nomad_client_allocs_memory_rss", 64 * mib, 110 * mib, []string{"job", "holds", "task", "t"}},
		{"nomad_client_allocs_memory_usage", 64 * mib, 128 * mib, []string{"job", "holds"}},
		{"nomad_client_allocs_memory_allocated", 128 * mib, 128 * mib, []string{"job", "holds"}},
		{"nomad_client_allocs_cpu_allocated", 100, 100, []string{"job", "holds"}},
		{"nomad_client_allocated_cpu", 100, 100, nil},
		{"nomad_client_allocated_memory", 128, 128, nil},
		{"nomad_client_allocated_disk", 30, 30, nil},
		{"nomad_client_allocations_running", 1, 1, nil},
		{"nomad_client_allocations_terminal", 2, 2, nil},
		{"nomad_client_allocs_running", 1, 1, []string{"job", "holds"}},
		{"nomad_client_allocs_complete", 1, 1, []string{"job", "ends"}},
		{"nomad_client_allocs_failed", 1, 1, []string{"job", "fails"}},
		{"nomad_client_allocs_restart", 1, 1, []string{"job", "fails"}},
		{"nomad_nomad_job_summary_running", 1, 1, []string{"job", "holds", "task_group", "g"}},
		{"nomad_nomad_job_summary_complete", 1, 1, []string{"job", "ends"}},
		{"nomad_nomad_job_summary_failed", 1, 1, []string{"job", "fails"}},
		{"nomad_nomad_job_summary_queued", 1, 1, []string{"job", "large"}},
		{"nomad_nomad_blocked_evals_total_blocked", 1, 1, nil},
		{"nomad_nomad_blocked_evals_job_cpu", 9999999, 9999999, []string{"job", "large"}},
		{"nomad_nomad_heartbeat_active", 1, 1, nil},
	} {
		got := find(all[w.metric], w.labels...)
		if len(got) != 1 || got[0] < w.least || got[0] > w.most {
			return fmt.Errorf("%s%v is %v, want one from %v to %v", w.metric, w.labels, got, w.least, w.most)
		}
	}
	return nil
}
