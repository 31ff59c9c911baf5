package refdocs

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	wal "github.com/hashicorp/raft-wal"

	"berth/internal/telemetry"
)

// emitters are the functions that take a metric's name, with the kind of the metric.
var emitters = map[string]string{
	"SetGauge": "gauge", "SetGaugeWithLabels": "gauge",
	"SetPrecisionGauge": "gauge", "SetPrecisionGaugeWithLabels": "gauge",
	"IncrCounter": "counter", "IncrCounterWithLabels": "counter",
	"AddSample": "sample", "AddSampleWithLabels": "sample",
	"MeasureSince": "timer, ms", "MeasureSinceWithLabels": "timer, ms",
	"newSaturationMetric": "sample",
	"reportGauge":         "gauge", "reportGauges": "gauge",
}

// emitting has the modules that emit metrics in a berth process, with the page that explains them.
var emitting = map[string]string{
	"berth":                           "",
	"github.com/hashicorp/raft":       "Raft",
	"github.com/hashicorp/serf":       "the gossip's membership (serf)",
	"github.com/hashicorp/memberlist": "the gossip's transport (memberlist)",
	"github.com/hashicorp/go-metrics": "the Go runtime",
}

// notOurs has the packages that emit only in other programs.
var notOurs = []string{"github.com/hashicorp/serf/cmd"}

// meaning explains berth's own metrics.
var meaning = map[string]string{
	"audit.failed":                "writes that a sink of the audit log has not taken; label sink",
	"audit.lines":                 "lines of the audit log; label sink",
	"audit.lost":                  "lines that a sink of the audit log will never have; label sink",
	"audit.write":                 "a write of lines of the audit log, with its sync; label sink",
	"autopilot.differences":       "settings that the servers do not have alike, on the leader",
	"autopilot.failure_tolerance": "healthy voters that may fail before the cluster stops, on the leader",
	"autopilot.healthy":           "1 while all servers are healthy, else 0, on the leader",
	"client.allocs":               "allocations on this node; label state",
	"control.nodes":               "nodes, on the leader; label status",
	"cluster_time.ahead_seconds":  "by which the clock of the leader is ahead of the cluster time",
	"cluster_time.wrong_clocks":   "servers whose clocks differ from the cluster time by more than a minute",
	"control.plans_in_flight":     "evaluations whose plan is proposed and not applied yet, on the leader",
	"control.schedule":            "processing of one evaluation, with its plan",
	"control.summaries_left_out":  "task groups beyond those whose allocations the names of the dialect count, on the leader",
	"control.waiting":             "keys that wait in the work queue of a leader loop; label loop",
	"csi.attachments_pending":     "attachments that need a controller call, on the leader; label state",
	"csi.backlog":                 "steps of a plugin's volumes that could be taken, and wait for a call in flight or a controller, on the leader; label plugin",
	"csi.backlog_age_seconds":     "how long the one of them has waited that waits longest, on the leader; label plugin",
	"csi.calls_in_flight":         "steps of a plugin's volumes in work, on the leader; label plugin",
	"csi.drift":                   "differences between the volumes of a plugin and its list, on the leader; labels plugin, kind",
	"csi.call":                    "one call of a CSI plugin, in ms; labels plugin, method, code",
	"csi.claims":                  "claims, on the leader; label state",
	"quota.used":                  "what the namespaces of a quota have of a bound, on the leader; labels quota, of",
	"quota.allowed":               "the bound, 0 if it allows nothing, on the leader; labels quota, of",
	"csi.plugin_expected":         "expected instances, on the leader; labels plugin, kind",
	"csi.plugin_healthy":          "healthy instances, on the leader; labels plugin, kind",
	"csi.storage_unhealthy":       "1 while a plugin reports an adverse condition of its storage on this node, else 0; label plugin",
	"csi.volume_bytes":            "the size of a mounted volume; labels namespace, volume, plugin",
	"csi.volume_inodes_used":      "the used part of the inodes of a mounted volume, in percent; labels as before",
	"csi.volume_trim_faults":      "trims of a mounted volume that failed; labels as before",
	"csi.volume_trimmed_bytes":    "bytes that trims of a mounted volume gave to its storage; labels as before",
	"csi.growths":                 "volumes that the leader has made larger by the rule of `grow`; label: plugin",
	"csi.volume_unhealthy":        "mounts of a volume on this node that are dead, hung, read-only or gone; labels as before",
	"csi.volume_used":             "the used part of a mounted volume, in percent; labels as before",
	"csi.volumes_abnormal":        "volumes that the controllers of a plugin report as abnormal, on the leader; label plugin",
	"csi.volumes_pending":         "volumes that need a controller call, on the leader; label state",
	"fence.agent":                 "one run of a fence agent; label device",
	"fence.runs": "recorded ends of fence runs; label result: proved, lease, or the cause of a failed run " +
		"(agent, leader-ended, no-device)",
	"fsm.apply":    "one command of the Raft log; label command",
	"rpc.queries":  "reads of the state, also those that wait",
	"rpc.rejected": "requests and connections rejected because of a limit; label limit",
	"rpc.served":   "one request; labels method, error (the kind, empty on success)",
	"rpc.woken":    "repeated runs of blocking queries; label method",

	"snapshot_agent.failed":  "attempts of the snapshot agent that saved no archive, on the leader",
	"snapshot_agent.failing": "1 while the last attempt of the snapshot agent saved no archive, else 0, on the leader",
	"snapshot_agent.overdue": "1 while the newest archive is older than two periods, else 0, on the leader",
	"snapshot_agent.saved":   "archives that the snapshot agent has saved, on the leader",
}

// emitted is a metric that the source of a package emits.
type emitted struct {
	name, kind, module string
}

func TestMetrics_OfBerthAreExplained(t *testing.T) {
	found := map[string]bool{}
	for _, m := range scanMetrics(t) {
		if m.module == "berth" {
			found[m.name] = true
			if meaning[m.name] == "" {
				t.Errorf("%s is emitted and meaning does not explain it", m.name)
			}
		}
	}
	for name := range meaning {
		if !found[name] {
			t.Errorf("meaning explains %s, which nothing emits", name)
		}
	}
}

func metricNames(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# Metrics\n\n`GET /v1/metrics` answers in JSON under the names below, `?format=prometheus` with `_` in place of\n" +
		"`.` and `-`. Prometheus also gets the Go runtime's `go_*` and the process's `process_*`. A part in\n" +
		"`<>` varies. Metrics of the leader are 0 on a former leader.\n")
	all := scanMetrics(t)
	for _, title := range []string{"berth", "Raft", "the Raft log on disk", "the gossip's membership (serf)",
		"the gossip's transport (memberlist)", "the Go runtime"} {
		fmt.Fprintf(&b, "\n## %s%s\n\n| name | kind | |\n|---|---|---|\n",
			strings.ToUpper(title[:1]), title[1:])
		for _, m := range all {
			if m.module == title || emitting[m.module] == title {
				fmt.Fprintf(&b, "| `%s.%s` | %s | %s |\n",
					telemetry.Service, m.name, m.kind, meaning[m.name])
			}
		}
		if title == "the Raft log on disk" {
			walMetrics(&b)
		}
	}
	return b.String()
}

func walMetrics(b *strings.Builder) {
	for _, d := range wal.MetricDefinitions.Counters {
		fmt.Fprintf(b, "| `%s.raft.wal.%s` | counter | |\n", telemetry.Service, d.Name)
	}
	for _, d := range wal.MetricDefinitions.Gauges {
		fmt.Fprintf(b, "| `%s.raft.wal.%s` | gauge | |\n", telemetry.Service, d.Name)
	}
}

// scanMetrics returns the metrics in the source of the agent's packages that may emit, in the order of names.
func scanMetrics(t *testing.T) []emitted {
	t.Helper()
	found, err := readMetrics()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// readMetrics reads the source once for all tests.
var readMetrics = sync.OnceValues(func() ([]emitted, error) {
	cmd := exec.Command("go", "list", "-deps", "-tags", "hashicorpmetrics",
		"-json=ImportPath,Dir,GoFiles,Module", "berth/cmd/berth")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	found := map[emitted]bool{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
			Module          *struct{ Path string }
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if p.Module == nil || !emits(p.Module.Path, p.ImportPath) {
			continue
		}
		metrics, err := scanPackage(p.Dir, p.GoFiles)
		if err != nil {
			return nil, err
		}
		for _, m := range metrics {
			m.module = p.Module.Path
			found[m] = true
		}
	}
	byName := func(a, b emitted) int { return strings.Compare(a.name+a.kind, b.name+b.kind) }
	return slices.SortedFunc(maps.Keys(found), byName), nil
})

func emits(module, pkg string) bool {
	_, known := emitting[module]
	return known && !slices.ContainsFunc(notOurs, func(p string) bool {
		return strings.HasPrefix(pkg, p)
	})
}

func scanPackage(dir string, names []string) (found []emitted, _ error) {
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	vars := map[string]ast.Expr{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == 1 && len(spec.Values) == 1 {
				vars[spec.Names[0].Name] = spec.Values[0]
			}
			return true
		})
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || emitters[calledName(call)] == "" {
				return true
			}
			name := metricName(call.Args[0], vars)
			legacy := strings.HasPrefix(name, "raft.replication.") && strings.HasSuffix(name, ">")
			if name != "" && !legacy { // berth turns off the names of Raft that contain a peer
				found = append(found, emitted{
					name: name,
					kind: emitters[calledName(call)],
				})
			}
			return true
		})
	}
	return found, nil
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// metricName joins the parts of a name; a part that is no literal shows as <its expression>.
func metricName(arg ast.Expr, vars map[string]ast.Expr) string {
	if id, ok := arg.(*ast.Ident); ok && vars[id.Name] != nil {
		arg = vars[id.Name]
	}
	list, ok := arg.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	var parts []string
	for _, e := range list.Elts {
		switch e := e.(type) {
		case *ast.BasicLit:
			text, _ := strconv.Unquote(e.Value)
			parts = append(parts, text)
		case *ast.Ident:
			parts = append(parts, "<"+e.Name+">")
		default:
			parts = append(parts, "<...>")
		}
	}
	return strings.Join(parts, ".")
}
