package refdocs

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/hashicorp/go-hclog"

	"berth/api/apitest"
	"berth/api/areas"
	"berth/endpoints"
	"berth/endpoints/core"
	"berth/fsm"
	"berth/state"
	"berth/state/schema"
)

var update = flag.Bool("update", false, "write the reference again")

// pages are the generated files of docs/reference.
var pages = []struct {
	name  string
	write func(t *testing.T) string
}{
	{"rpc.md", procedures},
	{"http.md", routes},
	{"cli.md", commandLine},
	{"commands.md", raftCommands},
	{"schema.md", schemaPage},
	{"metrics.md", metricNames},
	{"limits.md", limits},
	{"settings.md", settingsPage},
	{"stuck.md", stuckStates},
}

func TestReference_IsCurrent(t *testing.T) {
	for _, p := range pages {
		path := filepath.Join("..", "..", "docs", "reference", p.name)
		want := p.write(t)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if string(got) != want {
			t.Errorf("%s differs from the code; run `make goldens`", path)
		}
	}
}

func procedures(*testing.T) string {
	var b strings.Builder
	b.WriteString("# Remote procedures\n\nA server serves them on its RPC port in msgpack net/rpc. The types of requests and responses are in `structs`.\n" +
		"The leader serves a write. Another server forwards it, at most one hop. With access control on, the caller needs a\nright (see [Access control](../operations/acl.md)).\n\n| method | kind | right |\n|---|---|---|\n")
	for _, e := range endpoints.New(core.Deps{
		Store:  state.New(),
		Logger: hclog.NewNullLogger(),
	}).List() {
		kind := "read"
		if e.Write {
			kind = "write"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Name, kind, e.Needs)
	}
	return b.String()
}

func routes(t *testing.T) string {
	rights := map[string]string{}
	for _, e := range endpoints.New(core.Deps{
		Store:  state.New(),
		Logger: hclog.NewNullLogger(),
	}).List() {
		rights[e.Name] = e.Needs
	}
	procedures := map[string]string{}
	for _, r := range apitest.RouteRequests(t, "../..") {
		procedures[r.Route] = r.Procedure
	}

	var b strings.Builder
	b.WriteString("# HTTP routes\n\nA resource that the Nomad HTTP API also has follows that API. A route without a " +
		"[procedure](rpc.md) is\nserved by the agent itself, and so are those of files, logs and commands in tasks: their " +
		"procedure finds the\nnode. With access control on, the caller needs the right.\n\n" +
		"| methods | path | procedure | right |\n|---|---|---|---|\n")
	for _, r := range areas.Routes() {
		procedure := procedures[strings.Fields(r.Methods)[0]+" "+r.Path]
		right := cmp.Or(string(r.Needs), rights[procedure])
		if procedure != "" {
			procedure = "`" + procedure + "`"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", r.Methods, r.Path, procedure, right)
	}
	return b.String()
}

func raftCommands(*testing.T) string {
	var b strings.Builder
	b.WriteString("# Log entries\n\nAn entry is the ID of a command, one byte, and its payload in msgpack. IDs never change and are never reused.\n\n| id | command |\n|---|---|\n")
	for _, c := range fsm.List() {
		fmt.Fprintf(&b, "| %d | %s |\n", c.ID, c.Name)
	}
	return b.String()
}

func schemaPage(*testing.T) string {
	var b strings.Builder
	b.WriteString("# Tables\n\nThe tables have the order of a snapshot file, which leaves computed ones out. The leading parts of a key also\n" +
		"select rows.\n\n" +
		"| table | row | indexes beside its key |\n|---|---|---|\n")
	for _, t := range schema.Tables() {
		name := t.Name()
		if t.IsComputed() {
			name += " (computed)"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n",
			name, t.RowType(), strings.Join(t.IndexNames(), ", "))
	}
	return b.String()
}

func limits(*testing.T) string {
	var b strings.Builder
	b.WriteString("# Limits\n\nThese limits apply to one request, job file or report. Input beyond a limit is rejected before it has an effect, unless\n" +
		"the last column says otherwise. A limit applies to new input: rows of an older version stay as they are. The load of a\n" +
		"server has its own limits: see [Overload](../operations/overload.md#overload).\n\n" +
		"| of | at most | beyond it |\n|---|---|---|\n")
	for _, l := range slices.Concat(allLimits, agentLimits) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n",
			l.Of, amount(l.Max, l.Unit), l.Beyond)
	}
	return b.String()
}

// amount formats a limit for readers.
func amount(n int64, unit string) string {
	if unit == "duration" {
		return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(time.Duration(n).String())
	}
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for at := slices.Index(units, unit); at >= 0 && at < len(units)-1 && n >= 1<<10 && n%(1<<10) == 0; at++ {
		n >>= 10
		unit = units[at+1]
	}
	return strings.TrimSpace(humanize.Comma(n) + " " + unit)
}
