package archtest

import (
	"path/filepath"
	"strings"
	"testing"
)

// The reasons for which code of nodes may read a wall clock, beside those of the servers. The page on time
// has each.
const (
	byTasks     = "the starts and ends of tasks, and what counts from them"
	byMeasuring = "measurements and the health of drivers, plugins, mounts and checks: the times of their rows"
	byOthers    = "times that another program on the machine has written"
	byCalls     = "the times of records: calls of plugins, quiesced file systems, ended allocations of the guard"
)

// nodeClocks are the packages of nodes that read the wall clock.
var nodeClocks = map[string]clockFile{
	"client":                         {13, []string{byMonotonic}},
	"client/allocrunner":             {4, []string{byTasks, byMonotonic}},
	"client/allocrunner/taskrunner":  {7, []string{byTasks, byLog}},
	"client/csi/csihooks":            {19, []string{byCalls, byLog, byMonotonic}},
	"client/csi/registry":            {4, []string{byCalls, byMeasuring, byMonotonic}},
	"client/csi/upkeep":              {9, []string{byMeasuring, byMonotonic}},
	"client/csi/volumes":             {5, []string{byCalls, byMeasuring, byMonotonic}},
	"client/devices":                 {2, []string{byMeasuring, byLog}},
	"client/drivers/catalog":         {2, []string{byMonotonic}},
	"client/drivers/connectproxy":    {1, []string{byMeasuring}},
	"client/drivers/docker":          {6, []string{byMeasuring, byLog, byOthers, byMonotonic}},
	"client/drivers/docker/images":   {7, []string{byMonotonic}},
	"client/drivers/exec":            {2, []string{byMeasuring}},
	"client/drivers/executor":        {6, []string{byMeasuring, byMonotonic}},
	"client/drivers/external":        {5, []string{byMeasuring, byMonotonic}},
	"client/drivers/rawexec":         {1, []string{byMeasuring}},
	"client/drivers/sandbox":         {1, []string{byMonotonic}},
	"client/guard/watch":             {8, []string{byCalls, byLog, byOthers, byMonotonic}},
	"client/hooks":                   {2, []string{byMonotonic}},
	"client/hooks/artifact":          {5, []string{byMonotonic}},
	"client/hooks/artifact/download": {1, []string{byMonotonic}},
	"client/hooks/disk":              {2, []string{byMonotonic}},
	"client/hooks/identities":        {4, []string{byCredential, byMonotonic}},
	"client/hooks/template":          {4, []string{byLog, byMonotonic}},
	"client/login":                   {11, []string{byCredential, byMonotonic}},
	"client/machine":                 {1, []string{byMeasuring}},
	"client/mesh/services":           {5, []string{byLog, byMeasuring}},
	"client/store":                   {2, []string{byMonotonic}},
}

// testClocks are packages of tests.
var testClocks = []string{
	"berth/client/drivers/drivertest",
	"berth/client/drivers/docker/dockertest",
}

// TestNodes_ReadWallClocksForKnownReasons: a node whose clock is ahead must give up nothing that somebody
// needs. Servers count ages, and one process counts in a monotonic clock.
func TestNodes_ReadWallClocksForKnownReasons(t *testing.T) {
	found := map[string]int{}
	for _, p := range packages(t) {
		if !within(p.ImportPath, []string{"berth/client"}) || within(p.ImportPath, testClocks) {
			continue
		}
		for _, name := range p.GoFiles {
			uses := wallUses(parseFile(t, filepath.Join(p.Dir, name)))
			if uses > 0 {
				found[strings.TrimPrefix(p.ImportPath, "berth/")] += uses
			}
		}
	}
	checkClocks(t, found, nodeClocks)
}
