package archtest

import (
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The reasons for which code of the servers may read a wall clock. The page on time has each in a table or in
// a sentence.
const (
	byCalendar   = "schedules of jobs and of snapshots, the times of archives"
	byCredential = "ends of tokens, certificates, join tokens, identities and logins"
	byFence      = "fence runs: their times, and the pause between attempts"
	byGrowth     = "the growth of volumes: the age of a measurement"
	byReport     = "health of volumes, drift from the storage, free capacity: the times of their rows"
	byKeys       = "the times of root keys, of the certificate authority and of the settings of the scheduler"
	byLog        = "times in logs, in task events, in the audit log and in the names of archives"
	byClocks     = "the comparison of the clocks of the servers"
	// The times of a process that only measures or waits have the reading of a monotonic clock.
	byMonotonic = "the pauses of one process, deadlines of connections and the figures of durations"
)

// clockFile tells for what a file reads the wall clock.
type clockFile struct {
	uses    int
	reasons []string
}

// wallClocks are the files of the servers that read the wall clock. All else takes the cluster time (package
// clustertime): an age by a wall clock deletes what is new.
var wallClocks = map[string]clockFile{
	"endpoints/audit/audit.go":                        {2, []string{byLog}},
	"endpoints/cluster/autopilot.go":                  {1, []string{byClocks}},
	"endpoints/core/server.go":                        {1, []string{byCredential}},
	"endpoints/forward.go":                            {3, []string{byMonotonic}},
	"endpoints/access/identity_order.go":              {1, []string{byCredential}},
	"endpoints/job/job_plan.go":                       {1, []string{byCalendar}},
	"endpoints/join/authorities.go":                   {1, []string{byCredential}},
	"endpoints/join/port.go":                          {2, []string{byMonotonic}},
	"endpoints/join/tokens.go":                        {1, []string{byCredential}},
	"endpoints/middleware.go":                         {5, []string{byCredential, byMonotonic}},
	"endpoints/node/node.go":                          {2, []string{byMonotonic}},
	"endpoints/node/node_cluster.go":                  {2, []string{byLog}},
	"endpoints/query/blocking.go":                     {2, []string{byMonotonic}},
	"endpoints/rights/gate.go":                        {1, []string{byCredential}},
	"endpoints/rights/identity.go":                    {1, []string{byCredential}},
	"endpoints/rights/settings.go":                    {1, []string{byCredential}},
	"endpoints/rights/until.go":                       {1, []string{byCredential}},
	"fsm/fsm.go":                                      {1, []string{byMonotonic}},
	"server/authority/authority.go":                   {2, []string{byCredential}},
	"server/authority/replace.go":                     {1, []string{byCredential}},
	"server/autopilot/autopilot.go":                   {1, []string{byMonotonic}},
	"server/backup/backup.go":                         {3, []string{byCalendar}},
	"server/backup/files.go":                          {2, []string{byCalendar}},
	"server/backup/status.go":                         {3, []string{byCalendar}},
	"server/clock.go":                                 {4, []string{byClocks}},
	"server/consulacl/pace.go":                        {1, []string{byMonotonic}},
	"server/control/cluster/authority_key.go":         {1, []string{byKeys}},
	"server/control/volumes/capacity.go":              {2, []string{byReport}},
	"server/control/control.go":                       {2, []string{byFence}},
	"server/control/controllers.go":                   {1, []string{byMonotonic}},
	"server/control/drain.go":                         {1, []string{byLog}},
	"server/control/volumes/drift.go":                 {1, []string{byReport}},
	"server/control/volumes/drift_record.go":          {1, []string{byReport}},
	"server/control/fence/device.go":                  {1, []string{byMonotonic}},
	"server/control/fence/lease.go":                   {3, []string{byFence, byMonotonic}},
	"server/control/fence/loop.go":                    {4, []string{byFence}},
	"server/control/cluster/gauges.go":                {3, []string{byMonotonic}},
	"server/control/volumes/growth.go":                {1, []string{byGrowth}},
	"server/control/inflight.go":                      {3, []string{byMonotonic}},
	"server/control/loop/rounds.go":                   {1, []string{byMonotonic}},
	"server/control/periodic.go":                      {2, []string{byCalendar}},
	"server/control/reaper.go":                        {1, []string{byMonotonic}},
	"server/control/cluster/scheduler_config_loop.go": {1, []string{byKeys}},
	"server/control/schedule.go":                      {6, []string{byMonotonic}},
	"server/control/cluster/seal.go":                  {1, []string{byKeys}},
	"server/control/cluster/signing_use.go":           {2, []string{byMonotonic}},
	"server/control/volumes/schedules.go":             {3, []string{byCalendar}},
	"server/control/volumes/health.go":                {1, []string{byReport}},
	"server/control/volumes/health_pass.go":           {2, []string{byMonotonic}},
	"server/control/workqueue/runner.go":              {5, []string{byMonotonic}},
	"server/gossip/bounds.go":                         {1, []string{byMonotonic}},
	"server/gossip/places.go":                         {7, []string{byMonotonic}},
	"server/gossip/sockets.go":                        {1, []string{byMonotonic}},
	"server/keys/lead.go":                             {1, []string{byKeys}},
	"server/leader.go":                                {1, []string{byCredential}},
	"server/raftfiles/segments.go":                    {1, []string{byLog}},
	"server/raftnet/transport.go":                     {1, []string{byMonotonic}},
	"server/root_keys.go":                             {1, []string{byMonotonic}},
	"server/server.go":                                {1, []string{byMonotonic}},
	"server/signing/signing.go":                       {2, []string{byCredential}},
	"server/snapshot.go":                              {1, []string{byCalendar}},
	"server/control/cluster/token_expirer.go":         {1, []string{byCredential}},
	"server/verify.go":                                {1, []string{byMonotonic}},
}

// clockPackages are those of the code that runs on servers alone. Package state has no clock at all.
var clockPackages = []string{"berth/server", "berth/endpoints", "berth/fsm", "berth/scheduler"}

// ownClocks are the packages of the cluster time, and of tests.
var ownClocks = []string{"berth/server/clock", "berth/endpoints/endpointstest", "berth/scheduler/schedtest"}

// TestServers_ReadWallClocksForKnownReasons: a new use needs a look at the page on time, a line here, and a
// reason that the page has.
func TestServers_ReadWallClocksForKnownReasons(t *testing.T) {
	found := map[string]int{}
	for _, p := range packages(t) {
		if !within(p.ImportPath, clockPackages) || within(p.ImportPath, ownClocks) {
			continue
		}
		for _, name := range p.GoFiles {
			uses := wallUses(parseFile(t, filepath.Join(p.Dir, name)))
			if uses > 0 {
				found[strings.TrimPrefix(p.ImportPath, "berth/")+"/"+name] = uses
			}
		}
	}
	checkClocks(t, found, wallClocks)
}

// checkClocks compares uses of the wall clock with those that are known, and their reasons with the page.
func checkClocks(t *testing.T, found map[string]int, clocks map[string]clockFile) {
	t.Helper()
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if known := clocks[file]; known.uses != found[file] {
			t.Errorf("%s reads the wall clock %d times, and the list has %d: an age or a deadline counts in the "+
				"cluster time, or on a node in a monotonic clock; else give the use a line in the list, with a "+
				"reason of docs/operations/time.md", file, found[file], known.uses)
		}
	}

	page, err := os.ReadFile(filepath.Join(root, "docs/operations/time.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, file := range slices.Sorted(maps.Keys(clocks)) {
		known := clocks[file]
		if found[file] == 0 {
			t.Errorf("%s is in the list and reads no wall clock", file)
		}
		if len(known.reasons) == 0 {
			t.Errorf("%s has no reason", file)
		}
		for _, reason := range known.reasons {
			if !strings.Contains(text, reason) {
				t.Errorf("docs/operations/time.md does not tell of %q, for which %s reads the wall clock", reason, file)
			}
		}
	}
}

// wallUses counts the uses of the clock in a file, and the calls of a clock that the code was given, other
// than the cluster time.
func wallUses(f *ast.File) int {
	uses := 0
	for _, use := range clockUses(f) {
		if slices.Contains([]string{"Now", "Since", "Until"}, use.Sel.Name) { // a timer has no wall clock
			uses++
		}
	}
	for n := range ast.Preorder(f) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			continue
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if ok && s.Sel.Name == "Now" && !slices.Contains([]string{"time", "Clock", "clock"}, lastName(s.X)) {
			uses++
		}
	}
	return uses
}

// lastName returns the name of an expression: that of the field for a selector.
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

func TestWallUses_FindsUses(t *testing.T) {
	for statement, want := range map[string]int{
		"x := time.Now()":                     1,
		"x := time.Now":                       1,
		"x := time.Since(y) + time.Until(z)":  2,
		"x := s.Now()":                        1,
		"x := g.config.Now().UnixNano()":      1,
		"x := s.Clock.Now()":                  0,
		"x := s.clock.Now().Add(time.Minute)": 0,
		"x := plan.Now":                       0,
		"x := time.After(time.Second)":        0,
	} {
		if got := wallUses(parseBody(t, statement)); got != want {
			t.Errorf("%s: got %d uses of a wall clock, want %d", statement, got, want)
		}
	}
}
