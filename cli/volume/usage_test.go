package volume_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs"
	"berth/structs/storage"
)

// usageCluster has four volumes: one is full, one has few inodes, one was not measured, one is not mounted.
func usageCluster(t *testing.T) (addr string) {
	t.Helper()
	c := &apitest.Caller{}
	var list structs.CSIVolumeListResponse
	for _, id := range []string{"few-inodes", "full", "hung", "idle"} {
		list.Volumes = append(list.Volumes, &structs.CSIVolumeListStub{ID: id, Namespace: "default"})
	}
	apitest.Answer(c, structs.CSIVolumeList, list)
	apitest.Answer(c, structs.VolumeWhy, structs.WhyResponse{Text: "nothing waits\n"})
	apitest.Answer(c, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{Volume: &structs.CSIVolumeDetail{
		CSIVolume: structs.CSIVolume{
			ID: "full", Namespace: "default",
			CSIVolumeSpec: structs.CSIVolumeSpec{Trim: new(24 * time.Hour)},
		},
		Claims: []*structs.CSIClaim{{State: structs.ClaimGranted, AllocID: "a1"}},
	}})
	use := func(id string, bytes, inodes int64) *storage.VolumeUsage {
		return &storage.VolumeUsage{
			Namespace: "default",
			VolumeID:  id,
			NodeID:    "n1",
			Time:      time.Now().UnixNano(),
			Bytes:     &storage.UsageAmount{Total: 100 << 30, Used: bytes << 30, Available: (100 - bytes) << 30},
			Inodes:    &storage.UsageAmount{Total: 100, Used: inodes, Available: 100 - inodes},
		}
	}
	full := use("full", 97, 3)
	full.Mounts = []*storage.MountHealth{
		{State: storage.MountHealthy, Since: 1},
		{AllocID: "a1", State: storage.MountDead, Reason: "no server", Since: 1, Healing: "it stops its tasks"},
	}
	full.Trim = &storage.VolumeTrim{
		Every: time.Hour,
		Time:  time.Now().Add(-30 * time.Minute).UnixNano(),
		Bytes: 3 << 20,
		Next:  time.Now().Add(30*time.Minute + 30*time.Second).UnixNano(),
		Fault: "the disk\nis slow",
	}
	full.Condition = &storage.VolumeCondition{
		Abnormal: true, Message: "the disk is ill", Statuses: []*structs.CSIHealth{{Status: "17", Reason: "New"}},
	}
	apitest.Answer(c, storage.UsageList, storage.VolumeUsageResponse{
		Usages: []*storage.VolumeUsage{
			use("few-inodes", 11, 88),
			full,
			{Namespace: "default", VolumeID: "hung", NodeID: "n1", Error: "it does not end"},
			{Namespace: "default", VolumeID: "new", NodeID: "n3"},
		},
		Health: []*storage.VolumeHealth{{
			Namespace: "default", VolumeID: "idle", PluginID: "p", Since: 1,
			Condition: &storage.VolumeCondition{
				Abnormal: true,
				Message:  "DATA_LOSS Lost",
				Statuses: []*structs.CSIHealth{{Status: "DATA_LOSS", Reason: "Lost", Message: "two\ndisks"}},
			},
		}},
		Warnings: []string{"node n2 does not tell"},
	})
	return clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
}

func TestVolumeList_SortsByTheUse(t *testing.T) {
	addr := usageCluster(t)
	for order, want := range map[string]string{
		"name":   "few-inodes full hung idle",
		"usage":  "full few-inodes hung idle",
		"inodes": "few-inodes full hung idle",
	} {
		code, out, errs := runArgs(t, []string{"volume", "list", "-address", addr, "-sort", order})
		ids := regexp.MustCompile(`(?m)^(few-inodes|full|hung|idle)\b`).FindAllString(out, -1)
		if code != 0 || strings.Join(ids, " ") != want {
			t.Errorf("%s: exit code %d: %s%s", order, code, out, errs)
		}
		if !strings.Contains(errs, "Warning: node n2 does not tell") {
			t.Errorf("%s: the errors are %q", order, errs)
		}
		for _, text := range []string{"97%", "88%", "dead: no server", "not measured: it does not end"} {
			if !strings.Contains(out, text) {
				t.Errorf("%s: %q is missing in\n%s", order, text, out)
			}
		}
	}
	code, _, errs := runArgs(t, []string{"volume", "list", "-address", addr, "-sort", "age"})
	if code != 2 || !strings.Contains(errs, "-sort takes name, usage or inodes") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestVolumeList_ShowsTheAnswerAsJSON(t *testing.T) {
	code, out, errs := runArgs(t, []string{"volume", "list", "-address", usageCluster(t), "-json"})
	var rows []struct {
		VolumeID string
		Usage    *storage.VolumeUsage
	}
	err := json.Unmarshal([]byte(out), &rows)
	if code != 0 || err != nil || len(rows) != 4 || rows[1].Usage.Bytes.Used != 97<<30 || rows[3].Usage != nil {
		t.Errorf("exit code %d, %v: %s%s", code, err, out, errs)
	}
}

func TestVolumeStatus_ShowsTheUseOnEachNode(t *testing.T) {
	code, out, errs := runArgs(t, []string{"volume", "status", "-address", usageCluster(t), "full"})
	if code != 0 || !strings.Contains(out, "Use\n") || !strings.Contains(out, "97%") ||
		!strings.Contains(out, "100 GiB") || !regexp.MustCompile(`n3 +not yet`).MatchString(out) ||
		strings.Count(out, "not yet") > 1 {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

func TestVolumeStatus_ShowsTheMountsOnEachNode(t *testing.T) {
	code, out, errs := runArgs(t, []string{"volume", "status", "-address", usageCluster(t), "full"})
	for _, text := range []string{
		"Mounts\n", "staged", "healthy", "allocation a1", "dead", "no server", "it stops its tasks",
	} {
		if code != 0 || !strings.Contains(out, text) {
			t.Errorf("exit code %d, %q is missing: %s%s", code, text, out, errs)
		}
	}
}

func TestVolumeWhy_NamesMountsThatAreIll(t *testing.T) {
	addr := usageCluster(t)
	code, out, errs := runArgs(t, []string{"volume", "why", "-address", addr, "full"})
	for _, text := range []string{
		"volume full on node n1, allocation a1: the mount is dead since 1970-01-01T00:00:00Z: no server; " +
			"it stops its tasks\n",
		"volume full on node n1: the plugin reports it as abnormal: the disk is ill\n",
		"volume idle: the controllers of plugin p report it as abnormal since 1970-01-01T00:00:00Z: " +
			"DATA_LOSS Lost\n",
		"nothing waits\n",
	} {
		if code != 0 || !strings.Contains(out, text) {
			t.Errorf("exit code %d, %q is missing: %s%s", code, text, out, errs)
		}
	}
	if strings.Contains(out, "staged") {
		t.Errorf("a healthy mount is a reason: %s", out)
	}
	code, out, _ = runArgs(t, []string{"volume", "why", "-address", addr, "-json", "full"})
	var why structs.WhyResponse
	if err := json.Unmarshal([]byte(out), &why); code != 0 || err != nil || len(why.Reasons) != 3 {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}

func TestVolumeStatus_ShowsTheTrimsOfEachNode(t *testing.T) {
	code, out, errs := runArgs(t, []string{"volume", "status", "-address", usageCluster(t), "full"})
	for _, want := range []string{
		`(?m)^Trimmed += every 1d$`,
		`(?m)^Node +Last +Given Back +Next +Fault$`,
		`(?m)^n1 +30m\S* ago +3.0 MiB +in 30m\S* +the disk is slow$`,
	} {
		if code != 0 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("code %d, want %s in:\n%s%s", code, want, out, errs)
		}
	}
}

func TestVolumeStatus_ShowsWhatThePluginReports(t *testing.T) {
	code, out, errs := runArgs(t, []string{"volume", "status", "-address", usageCluster(t), "full"})
	for _, want := range []string{
		`(?m)^Health$`,
		`(?m)^Reported By +Status +Reason +Since +Message$`,
		`(?m)^controllers +DATA_LOSS +Lost +.* ago +two disks$`,
		`(?m)^node n1 +17 +New`,
	} {
		if code != 0 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("code %d, want %s in:\n%s%s", code, want, out, errs)
		}
	}
	code, out, errs = runArgs(t, []string{"volume", "list", "-address", usageCluster(t)})
	for _, want := range []string{
		`(?m)^full .*dead: no server$`,
		`(?m)^idle .*abnormal: DATA_LOSS Lost$`,
		`(?m)^hung .*not measured: it does not end$`,
	} {
		if code != 0 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("code %d, want %s in:\n%s%s", code, want, out, errs)
		}
	}
}
