package refdocs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"berth/client/csi/upkeep"
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

// alertSection returns the section of the page with the rules, and the rules.
func alertSection(t *testing.T) (section, rules string) {
	t.Helper()
	_, section, _ = strings.Cut(readFile(t, "../../docs/operations/monitoring.md"), "## Full volumes\n")
	_, rest, _ := strings.Cut(section, "```yaml\n")
	rules, _, _ = strings.Cut(rest, "```\n")
	return section, rules
}

// decodeStrictly decodes a document of YAML that has no other fields than v.
func decodeStrictly(t *testing.T, text string, v any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	err := decoder.Decode(v)
	if err != nil {
		t.Fatal(err)
	}
}

// TestAlerts_UseTheMetricsOfVolumes reads the rules of the page as Prometheus would, and holds their metrics,
// and those of the table, against the ones that a node reports.
func TestAlerts_UseTheMetricsOfVolumes(t *testing.T) {
	section, rules := alertSection(t)
	table, _, _ := strings.Cut(section, "```yaml\n")
	var file ruleFile
	decodeStrictly(t, rules, &file)

	reported := map[string]bool{}
	upkeep.Example(func(g telemetry.Gauge) { reported[g.Name] = true })
	name := regexp.MustCompile(`kubelet_volume_stats_[a-z_]+`)
	own := regexp.MustCompile(`berth_(csi|snapshot_agent)_([a-z_]+)`)
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
			known := name.MatchString(r.Expr) || own.MatchString(r.Expr)
			for _, m := range own.FindAllStringSubmatch(r.Expr, -1) {
				known = known && meaning[m[1]+"."+m[2]] != ""
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

// alertCases is the file with the tests of the rules, in the form of promtool.
type alertCases struct {
	RuleFiles          []string `yaml:"rule_files"`
	EvaluationInterval string   `yaml:"evaluation_interval"`
	Tests              []struct {
		Name        string           `yaml:"name"`
		Interval    string           `yaml:"interval"`
		InputSeries []map[string]any `yaml:"input_series"`
		Alerts      []struct {
			Name     string           `yaml:"alertname"`
			EvalTime string           `yaml:"eval_time"`
			Expected []map[string]any `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

// TestAlerts_HaveCases: each rule has a case in which it fires, and one in which it does not.
func TestAlerts_HaveCases(t *testing.T) {
	_, rules := alertSection(t)
	var file ruleFile
	decodeStrictly(t, rules, &file)
	var cases alertCases
	decodeStrictly(t, readFile(t, alertCasesFile), &cases)
	fires := map[string]bool{}
	silent := map[string]bool{}
	for _, c := range cases.Tests {
		for _, a := range c.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
			silent[a.Name] = silent[a.Name] || len(a.Expected) == 0
		}
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if !fires[r.Alert] || !silent[r.Alert] {
				t.Errorf("%s: rule %s lacks a case in which it fires, or one in which it does not",
					alertCasesFile, r.Alert)
			}
		}
	}
}

const alertCasesFile = "testdata/alerts.yaml"

// TestAlerts_FireInTheirCases has promtool evaluate the rules of the page.
func TestAlerts_FireInTheirCases(t *testing.T) {
	tool := os.Getenv("PROMTOOL")
	if tool == "" {
		t.Skip("make alerts-test runs this test: it needs promtool")
	}
	dir := t.TempDir()
	_, rules := alertSection(t)
	for name, text := range map[string]string{"rules.yaml": rules, "alerts.yaml": readFile(t, alertCasesFile)} {
		err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "alerts.yaml"}} {
		cmd := exec.Command(tool, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
