package validate

import (
	"math"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestJob_NumbersAndSizesAreBounded(t *testing.T) {
	many := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[strings.Repeat("k", 1+i)] = ""
		}
		return m
	}
	groups := func(n, count int) func(*structs.Job) {
		return func(j *structs.Job) {
			j.TaskGroups = nil
			for i := range n {
				j.TaskGroups = append(j.TaskGroups, &structs.TaskGroup{
					Name:  strings.Repeat("g", 1+i),
					Count: count,
					Tasks: []*structs.Task{{Name: "t", Driver: "exec"}},
				})
			}
		}
	}
	for want, edit := range map[string]func(*structs.Job){
		"count 10001 must be at most 10000":                   groups(1, structs.MaxGroupCount+1),
		"count 2000000000 must be at most 10000":              groups(1, 2_000_000_000),
		"the counts of its groups are more than 50000 in sum": groups(6, structs.MaxGroupCount),
		"counts of its groups are more than 50000 in sum":     groups(3, math.MaxInt),
		"1001 groups; at most 1000 are allowed": func(j *structs.Job) {
			j.TaskGroups = make([]*structs.TaskGroup, 1001)
		},
		"101 tasks; at most 100 are allowed": group(func(g *structs.TaskGroup) { g.Tasks = make([]*structs.Task, 101) }),
		"257 constraints; at most 256":       func(j *structs.Job) { j.Constraints = make([]*structs.Constraint, 257) },
		"1001 datacenters; at most 1000": func(j *structs.Job) {
			j.Datacenters = make([]string, 1001)
		},
		"1001 entries of env; at most": task(func(t *structs.Task) { t.Env = many(1001) }),
		"meta has 300001 bytes; at most": func(j *structs.Job) {
			j.Meta = map[string]string{"k": strings.Repeat("x", 300_000)}
		},
		"1001 volume_mounts; at most": task(func(t *structs.Task) {
			t.VolumeMounts = make([]*structs.VolumeMount, 1001)
		}),
		"cpu 9223372036854775807 must be at most 100000000 MHz":                 task(func(t *structs.Task) { t.Resources.CPU = math.MaxInt }),
		"memory 9223372036854775807 must be at most 1073741824 M":               task(func(t *structs.Task) { t.Resources.MemoryMB = math.MaxInt }),
		"memory_max -1 is not a size: a task of berth always has a limit; give": task(func(t *structs.Task) { t.Resources.MemoryMaxMB = -1 }),
		"memory_max 1073741825 must be at most 1073741824 MiB":                  task(func(t *structs.Task) { t.Resources.MemoryMaxMB = structs.MaxMemoryMB + 1 }),
		"size 17179869185 must be at most 17179869184 MiB":                      group(func(g *structs.TaskGroup) { g.EphemeralDisk.SizeMB = structs.MaxDiskMB + 1 }),
		"request more than 1073741824 MiB of memory in sum": group(func(g *structs.TaskGroup) {
			t := *g.Tasks[0]
			r := structs.Resources{CPU: 1, MemoryMB: structs.MaxMemoryMB}
			t.Name = "u"
			t.CSIPluginConfig = nil
			t.Resources = &r
			g.Tasks[0].Resources = &r
			g.Tasks = append(g.Tasks, &t)
		}),
		"attempts 10001 must be at most 10000":       group(func(g *structs.TaskGroup) { g.RestartPolicy.Attempts = 10_001 }),
		"reschedule: attempts 1001 must be at most":  group(func(g *structs.TaskGroup) { g.ReschedulePolicy.Attempts = 1001 }),
		"reschedule: max_delay 2562047h47m16.854775": group(func(g *structs.TaskGroup) { g.ReschedulePolicy.MaxDelay = math.MaxInt64 }),
		"kill_timeout 24h0m1s must be at most 24h0m0": task(func(t *structs.Task) {
			t.KillTimeout = structs.MaxTaskWait + time.Second
		}),
		"health_timeout 25h0m0s must be at most": plugin(func(c *structs.CSIPluginConfig) { c.HealthTimeout = 25 * time.Hour }),
		"shutdown_delay 25h0m0s must be at most": group(func(g *structs.TaskGroup) {
			delay := 25 * time.Hour
			g.ShutdownDelay = &delay
		}),
		"max_run_duration 87600h0m1s must be at most 87600h0m0s": group(func(g *structs.TaskGroup) {
			g.MaxRunDuration = new(structs.MaxInterval + time.Second)
		}),
		"max_files 1001 must be at most 1000":       task(func(t *structs.Task) { t.LogConfig.MaxFiles = 1001 }),
		"max_file_size 65537 must be at most 65536": task(func(t *structs.Task) { t.LogConfig.MaxFileSizeMB = 65537 }),
		"value has 4097 bytes; at most 4096": constrained(&structs.Constraint{
			LTarget: "a",
			Operand: "=",
			RTarget: strings.Repeat("x", 4097),
		}),
		"destination has 5000 bytes": mount(func(m *structs.VolumeMount) { m.Destination = strings.Repeat("x", 5000) }),
		"mount_dir has 5000 bytes": plugin(func(c *structs.CSIPluginConfig) {
			c.MountDir = "/" + strings.Repeat("x", 4999)
		}),
		"129 volumes; at most 128": group(func(g *structs.TaskGroup) {
			for k := range many(128) {
				g.Volumes[k] = g.Volumes["data"]
			}
		}),
	} {
		j := testJob()
		edit(j)
		if err := Job(j); !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %v", want, err)
		}
	}
	for _, edit := range []func(*structs.Job){groups(5, structs.MaxGroupCount), groups(structs.MaxGroups, 1)} {
		j := testJob(edit)
		for i, g := range j.TaskGroups {
			unique := string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
			g.Name = g.Name[:min(len(g.Name), 200)] + unique
		}
		if err := Job(j); err != nil {
			t.Errorf("at the limit: %.200s", err)
		}
	}
}

func TestFaults_AreBounded(t *testing.T) {
	long := strings.Repeat("i\x1b", 1<<19)
	err := Job(testJob(func(j *structs.Job) {
		j.ID = long
		j.TaskGroups[0].Name = long
		for range 300 {
			j.Constraints = append(j.Constraints, &structs.Constraint{
				LTarget: "a",
				Operand: long,
				RTarget: long,
			})
			j.TaskGroups[0].Volumes[long+string(rune('a'+len(j.Constraints)))] = nil
			j.TaskGroups[0].Tasks[0].VolumeMounts = append(j.TaskGroups[0].Tasks[0].VolumeMounts,
				&structs.VolumeMount{Volume: long})
		}
	}))
	if !structs.IsKind(err, structs.KindInvalid) || len(err.Error()) > structs.MaxErrorText {
		t.Fatalf("%d bytes: %.1000s", len(err.Error()), err)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != structs.MaxFaults+1 || !strings.HasPrefix(lines[structs.MaxFaults], "and ") {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	if strings.ContainsRune(err.Error(), '\x1b') {
		t.Error("a control character shows")
	}
	if !strings.HasPrefix(lines[0], "job: id has 1048576 bytes; at most 255 are allowed") {
		t.Errorf("%.200s", lines[0])
	}
}

func TestFaults_ShowControlCharactersAsEscapes(t *testing.T) {
	err := Job(testJob(func(j *structs.Job) {
		j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"a\x1b]0;x\a": nil, "b\u009b\u202e\xff": nil}
		j.Constraints = []*structs.Constraint{{LTarget: "a", Operand: "regexp", RTarget: "(\x1b[2J"}}
	}))
	if err == nil || structs.Printable(err.Error()) != err.Error() ||
		!strings.Contains(err.Error(), `it has: a\x1b]0;x\a, b\u009b\u202e\xff`) {
		t.Errorf("got error %q, want escapes", err)
	}
}

func TestReschedulePolicy_IsBoundedWithoutAttempts(t *testing.T) {
	for want, p := range map[string]*structs.ReschedulePolicy{
		"delay must not be negative":            {Delay: -1},
		"interval 87600h0m0.000000001s must be": {Interval: structs.MaxInterval + 1},
		"max_delay 87600h0m0.000000001s must":   {MaxDelay: structs.MaxInterval + 1},
	} {
		err := Job(testJob(func(j *structs.Job) { j.TaskGroups[0].ReschedulePolicy = p }))
		if err == nil || !strings.Contains(err.Error(), "reschedule: "+want) {
			t.Errorf("want %s\n got %v", want, err)
		}
	}
}
