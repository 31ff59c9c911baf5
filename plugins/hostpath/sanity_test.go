package hostpath

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
)

// sanityRun is one run of the suite with one kind of volumes.
type sanityRun struct {
	AccessType string
	Parameters map[string]string
	Dir        string
	Address    string
}

// unsupported lists the reasons to skip a spec: capabilities that the driver does not announce. The test
// fails if the suite skips a spec for another reason.
var unsupported = []string{
	"Controller Publish, UnpublishVolume not supported",
	"ControllerPublishVolume not supported",
	"ControllerUnpublishVolume not supported",
	"ControllerModifyVolume not supported",
	"Modify Volume not supported",
	"Modify volume not supported",
	"ControllerGetVolumeHealth not supported",
	"ControllerListVolumeHealth not supported",
	"NodeGetVolumeHealth not supported",
	"NodeGetStorageHealth not supported",
	// The suite's spec of it compares addresses of messages, which differ for each answer.
	"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
}

// The driver passes csi-sanity, in a separate process, for each kind of volume.
func TestSanity_Suite(t *testing.T) {
	for name, run := range map[string]sanityRun{
		"directory": {AccessType: "mount"},
		"image":     {AccessType: "mount", Parameters: map[string]string{"type": "image"}},
		"block":     {AccessType: "block"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			if name != "directory" {
				needLoops(t)
			}
			w.cfg.MaxVolumes = 100
			w.startHere()
			run.Dir = w.dir
			run.Address = w.cfg.Endpoint
			runSuite(t, run)
			if left := mountsBelow(t, w.dir); len(left) > 0 {
				t.Errorf("mounts left: %v", left)
			}
			rows, _ := filepath.Glob(w.path("data", "*s", "*"))
			if len(rows) > 0 {
				t.Errorf("left in the data directory: %v", rows)
			}
		})
	}
}

// runSuite runs TestSanityInner in a separate process and checks its report.
func runSuite(t *testing.T, run sanityRun) {
	t.Helper()
	b, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(run.Dir, "report.json")
	cmd := exec.Command(os.Args[0], "-test.run=^TestSanityInner$", "-ginkgo.no-color",
		"-ginkgo.json-report="+report)
	cmd.Env = append(os.Environ(), sanityEnv+"="+string(b))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var reports []struct {
		SpecReports []struct {
			LeafNodeText            string
			ContainerHierarchyTexts []string
			State                   string
			Failure                 struct{ Message string }
		}
	}
	if err := json.Unmarshal(raw, &reports); err != nil {
		t.Fatal(err)
	}
	passed, skipped := 0, 0
	for _, s := range reports[0].SpecReports {
		name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " / ")
		switch s.State {
		case "passed":
			passed++
		case "skipped":
			skipped++
			if !slices.Contains(unsupported, s.Failure.Message) {
				t.Errorf("skipped %s: %s", name, s.Failure.Message)
			}
		case "pending": // the suite's own
		default:
			t.Errorf("%s %s: %s", s.State, name, s.Failure.Message)
		}
	}
	t.Logf("%d specs passed, %d skipped because the driver does not announce their feature", passed, skipped)
	if passed < 70 {
		t.Errorf("only %d specs passed", passed)
	}
}

// TestSanityInner is the suite's process.
func TestSanityInner(t *testing.T) {
	env := os.Getenv(sanityEnv)
	if env == "" {
		t.Skip("part of TestSanity_Suite")
	}
	var run sanityRun
	if err := json.Unmarshal([]byte(env), &run); err != nil {
		t.Fatal(err)
	}
	cfg := sanity.NewTestConfig()
	cfg.Address = run.Address
	cfg.TargetPath = filepath.Join(run.Dir, "sanity-target")
	cfg.StagingPath = filepath.Join(run.Dir, "sanity-stage")
	cfg.TestVolumeSize = 16 << 20
	cfg.TestVolumeExpandSize = 32 << 20
	cfg.TestVolumeAccessType = run.AccessType
	cfg.TestVolumeParameters = run.Parameters
	sanity.Test(t, cfg)
}
