package csisanity

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/moby/sys/mountinfo"

	"berth/csi"
	"berth/plugins/hostpath/disk"
	"berth/test/kit"
)

// runEnv has the run of a process of the suite, which can run once only in a process.
const runEnv = "BERTH_TEST_SANITY"

// run is one run of the suite with one kind of volumes.
type run struct {
	AccessType string
	Parameters map[string]string
	Dir        string
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

func TestHostpath_PassesTheSuite(t *testing.T) {
	if os.Getenv("BERTH_BIN") == "" {
		kit.SkipLacking(t, "a built binary: BERTH_BIN")
	}
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it mounts and makes loop devices")
	}
	for name, r := range map[string]run{
		"directory": {AccessType: "mount"},
		"image":     {AccessType: "mount", Parameters: map[string]string{"type": "image"}},
		"block":     {AccessType: "block"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat("/dev/loop-control"); err != nil && name != "directory" {
				kit.SkipLacking(t, "loop devices are missing: "+err.Error())
			}
			dir, err := os.MkdirTemp("/tmp", "bcs*w") // no name is the beginning of another one
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				images, _ := filepath.Glob(filepath.Join(dir, "data", "*", "*", "image"))
				for _, i := range images { // of a run that failed: its mounts have ended with its namespace
					_ = disk.DetachLoop(i)
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			r.Dir = dir
			checkReport(t, runSuite(t, r))
			checkLeftovers(t, dir)
		})
	}
}

// runSuite runs the suite and its driver in a mount namespace of their own, and returns the path of the
// report. A container that another program starts copies the mounts of the host, and keeps the copies until
// it has its own root: a volume would stay in use after its last unmount here.
func runSuite(t *testing.T, r run) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(r.Dir, "report.json")
	cmd := exec.Command("unshare", "--mount", "--propagation", "private",
		os.Args[0], "-test.run=^TestSuite$", "-ginkgo.no-color", "-ginkgo.json-report="+report)
	cmd.Env = append(os.Environ(), runEnv+"="+string(b))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return report
}

// checkReport counts the specs. It reports those that failed, or that the suite skipped for a reason that is
// not of the driver.
func checkReport(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
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

// checkLeftovers reports volumes and loop devices that are left.
func checkLeftovers(t *testing.T, dir string) {
	t.Helper()
	rows, err := filepath.Glob(filepath.Join(dir, "data", "*s", "*"))
	if err != nil || len(rows) > 0 {
		t.Errorf("left in the data directory: %v (%v)", rows, err)
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loops {
		file, err := os.ReadFile(l)
		if err == nil && strings.HasPrefix(string(file), dir) {
			t.Errorf("loop device left: %s of %s", l, file)
		}
	}
}

// TestSuite is the process of the suite.
func TestSuite(t *testing.T) {
	text := os.Getenv(runEnv)
	if text == "" {
		t.Skip("a part of TestHostpath_PassesTheSuite")
	}
	var r run
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	cfg := sanity.NewTestConfig()
	cfg.Address = startDriver(t, r.Dir)
	cfg.TargetPath = filepath.Join(r.Dir, "sanity-target")
	cfg.StagingPath = filepath.Join(r.Dir, "sanity-stage")
	cfg.TestVolumeSize = 16 << 20
	cfg.TestVolumeExpandSize = 32 << 20
	cfg.TestVolumeAccessType = r.AccessType
	cfg.TestVolumeParameters = r.Parameters
	sanity.Test(t, cfg)

	left, err := mountinfo.GetMounts(mountinfo.PrefixFilter(r.Dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range left {
		t.Errorf("mount left: %s", m.Mountpoint)
	}
}

// startDriver runs the driver until the end of the test, and returns its address. Its log is in the output of
// the process.
func startDriver(t *testing.T, dir string) string {
	t.Helper()
	address := "unix://" + filepath.Join(dir, "csi.sock")
	driver := exec.Command(os.Getenv("BERTH_BIN"), "plugin", "hostpath", "-node-id", "node-a",
		"-endpoint", address, "-data-dir", filepath.Join(dir, "data"), "-max-volumes", "100", "-log-level", "debug")
	driver.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	driver.Stdout = os.Stdout
	driver.Stderr = os.Stdout
	err := driver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = driver.Process.Signal(syscall.SIGTERM)
		err := driver.Wait()
		if err != nil {
			t.Errorf("the driver ended with %v", err)
		}
	})

	client, err := csi.Dial(address, csi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		ready, err := client.Probe(ctx)
		if err == nil && ready {
			return address
		}
		// A probe fails at once without a socket, so a short timer bounds the rate of the loop.
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the driver is not ready: %v", err)
		}
	}
}
