package refdocs

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"berth/client/csi/stats"
	"berth/internal/telemetry"
)

// ruleFile is a file of rules of Prometheus.
type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Expr        string            `yaml:"expr"`
			For         string            `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

// TestAlerts_UseTheMetricsOfVolumes reads the rules of the page as Prometheus would, and holds their metrics,
// and those of the table, against the ones that a node reports.
func TestAlerts_UseTheMetricsOfVolumes(t *testing.T) {
	_, section, _ := strings.Cut(readFile(t, "../../docs/operations/monitoring.md"), "## Full volumes\n")
	table, rest, _ := strings.Cut(section, "```yaml\n")
	rules, _, _ := strings.Cut(rest, "```\n")
	var file ruleFile
	decoder := yaml.NewDecoder(strings.NewReader(rules))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}

	reported := map[string]bool{}
	stats.Example(func(g telemetry.Gauge) { reported[g.Name] = true })
	name := regexp.MustCompile(`kubelet_volume_stats_[a-z_]+`)
	own := regexp.MustCompile(`berth_(csi_[a-z_]+)`)
	for metric := range reported {
		if !strings.Contains(table, "| `"+metric+"` |") {
			t.Errorf("the table has no %s", metric)
		}
	}
	for _, metric := range name.FindAllString(section, -1) {
		if !reported[metric] {
			t.Errorf("no node reports %s", metric)
		}
	}

	alerts := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			alerts++
			_, err := time.ParseDuration(r.For)
			known := name.MatchString(r.Expr)
			if m := own.FindStringSubmatch(r.Expr); m != nil {
				known = meaning[strings.Replace(m[1], "_", ".", 1)] != ""
			}
			if r.Alert == "" || err != nil || !known || r.Labels["severity"] == "" ||
				r.Annotations["summary"] == "" || strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") {
				t.Errorf("the rule is %+v (%v)", r, err)
			}
		}
	}
	if alerts < 4 {
		t.Errorf("%d rules", alerts)
	}
}
