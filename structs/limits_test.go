package structs

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestJob_NumbersAndSizesAreBounded(t *testing.T) {
	many := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[strings.Repeat("k", 1+i)] = ""
		}
		return m
	}
	groups := func(n, count int) func(*Job) {
		return func(j *Job) {
			j.TaskGroups = nil
			for i := range n {
				j.TaskGroups = append(j.TaskGroups, &TaskGroup{
					Name:  strings.Repeat("g", 1+i),
					Count: count,
					Tasks: []*Task{{Name: "t", Driver: "exec"}},
				})
			}
		}
	}
	for want, edit := range map[string]func(*Job){
		"count 10001 must be at most 10000":                   groups(1, MaxGroupCount+1),
		"count 2000000000 must be at most 10000":              groups(1, 2_000_000_000),
		"the counts of its groups are more than 50000 in sum": groups(6, MaxGroupCount),
		"counts of its groups are more than 50000 in sum":     groups(3, math.MaxInt),
		"1001 groups; at most 1000 are allowed": func(j *Job) {
			j.TaskGroups = make([]*TaskGroup, 1001)
		},
		"101 tasks; at most 100 are allowed": group(func(g *TaskGroup) { g.Tasks = make([]*Task, 101) }),
		"257 constraints; at most 256":       func(j *Job) { j.Constraints = make([]*Constraint, 257) },
		"1001 datacenters; at most 1000": func(j *Job) {
			j.Datacenters = make([]string, 1001)
		},
		"1001 entries of env; at most": task(func(t *Task) { t.Env = many(1001) }),
		"meta has 300001 bytes; at most": func(j *Job) {
			j.Meta = map[string]string{"k": strings.Repeat("x", 300_000)}
		},
		"1001 volume_mounts; at most": task(func(t *Task) {
			t.VolumeMounts = make([]*VolumeMount, 1001)
		}),
		"cpu 9223372036854775807 must be at most 100000000 MHz":                 task(func(t *Task) { t.Resources.CPU = math.MaxInt }),
		"memory 9223372036854775807 must be at most 1073741824 M":               task(func(t *Task) { t.Resources.MemoryMB = math.MaxInt }),
		"memory_max -1 is not a size: a task of berth always has a limit; give": task(func(t *Task) { t.Resources.MemoryMaxMB = -1 }),
		"memory_max 1073741825 must be at most 1073741824 MiB":                  task(func(t *Task) { t.Resources.MemoryMaxMB = MaxMemoryMB + 1 }),
		"size 17179869185 must be at most 17179869184 MiB":                      group(func(g *TaskGroup) { g.EphemeralDisk.SizeMB = MaxDiskMB + 1 }),
		"request more than 1073741824 MiB of memory in sum": group(func(g *TaskGroup) {
			t := *g.Tasks[0]
			r := Resources{CPU: 1, MemoryMB: MaxMemoryMB}
			t.Name = "u"
			t.CSIPluginConfig = nil
			t.Resources = &r
			g.Tasks[0].Resources = &r
			g.Tasks = append(g.Tasks, &t)
		}),
		"attempts 10001 must be at most 10000":       group(func(g *TaskGroup) { g.RestartPolicy.Attempts = 10_001 }),
		"reschedule: attempts 1001 must be at most":  group(func(g *TaskGroup) { g.ReschedulePolicy.Attempts = 1001 }),
		"reschedule: max_delay 2562047h47m16.854775": group(func(g *TaskGroup) { g.ReschedulePolicy.MaxDelay = math.MaxInt64 }),
		"kill_timeout 24h0m1s must be at most 24h0m0": task(func(t *Task) {
			t.KillTimeout = MaxTaskWait + time.Second
		}),
		"health_timeout 25h0m0s must be at most": plugin(func(c *CSIPluginConfig) { c.HealthTimeout = 25 * time.Hour }),
		"shutdown_delay 25h0m0s must be at most": group(func(g *TaskGroup) {
			delay := 25 * time.Hour
			g.ShutdownDelay = &delay
		}),
		"max_run_duration 87600h0m1s must be at most 87600h0m0s": group(func(g *TaskGroup) {
			g.MaxRunDuration = new(MaxInterval + time.Second)
		}),
		"max_files 1001 must be at most 1000":       task(func(t *Task) { t.LogConfig.MaxFiles = 1001 }),
		"max_file_size 65537 must be at most 65536": task(func(t *Task) { t.LogConfig.MaxFileSizeMB = 65537 }),
		"value has 4097 bytes; at most 4096": constrained(&Constraint{
			LTarget: "a",
			Operand: "=",
			RTarget: strings.Repeat("x", 4097),
		}),
		"destination has 5000 bytes": mount(func(m *VolumeMount) { m.Destination = strings.Repeat("x", 5000) }),
		"mount_dir has 5000 bytes": plugin(func(c *CSIPluginConfig) {
			c.MountDir = "/" + strings.Repeat("x", 4999)
		}),
		"129 volumes; at most 128": group(func(g *TaskGroup) {
			for k := range many(128) {
				g.Volumes[k] = g.Volumes["data"]
			}
		}),
	} {
		j := testJob()
		edit(j)
		if err := j.Validate(); !IsKind(err, KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %v", want, err)
		}
	}
	for _, edit := range []func(*Job){groups(5, MaxGroupCount), groups(MaxGroups, 1)} {
		j := testJob(edit)
		for i, g := range j.TaskGroups {
			unique := string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
			g.Name = g.Name[:min(len(g.Name), 200)] + unique
		}
		if err := j.Validate(); err != nil {
			t.Errorf("at the limit: %.200s", err)
		}
	}
}

func TestFaults_AreBounded(t *testing.T) {
	long := strings.Repeat("i\x1b", 1<<19)
	err := testJob(func(j *Job) {
		j.ID = long
		j.TaskGroups[0].Name = long
		for range 300 {
			j.Constraints = append(j.Constraints, &Constraint{
				LTarget: "a",
				Operand: long,
				RTarget: long,
			})
			j.TaskGroups[0].Volumes[long+string(rune('a'+len(j.Constraints)))] = nil
			j.TaskGroups[0].Tasks[0].VolumeMounts = append(j.TaskGroups[0].Tasks[0].VolumeMounts,
				&VolumeMount{Volume: long})
		}
	}).Validate()
	if !IsKind(err, KindInvalid) || len(err.Error()) > MaxErrorText {
		t.Fatalf("%d bytes: %.1000s", len(err.Error()), err)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != MaxFaults+1 || !strings.HasPrefix(lines[MaxFaults], "and ") {
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
	err := testJob(func(j *Job) {
		j.TaskGroups[0].Volumes = map[string]*VolumeRequest{"a\x1b]0;x\a": nil, "b\u009b\u202e\xff": nil}
		j.Constraints = []*Constraint{{LTarget: "a", Operand: "regexp", RTarget: "(\x1b[2J"}}
	}).Validate()
	if err == nil || Printable(err.Error()) != err.Error() ||
		!strings.Contains(err.Error(), `it has: a\x1b]0;x\a, b\u009b\u202e\xff`) {
		t.Errorf("got error %q, want escapes", err)
	}
}

func TestCut_KeepsWholeCharacters(t *testing.T) {
	for s, want := range map[string]string{
		"":                     "",
		"abcd":                 "abcd",
		"abcde":                "abcd…",
		"äöü":                  "äö…",
		"aäö":                  "aä…",
		"\xff\xff\xff\xff\xff": "\xff\xff\xff\xff…",
	} {
		if got := Cut(s, 4); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	if got := Cut("\x80\x80\x80", 2); got != "…" {
		t.Errorf("got %q, want an ellipsis", got)
	}
}

func TestError_TextIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	wrapped := Errorf(KindInvalid, "%s", long)
	for name, text := range map[string]string{
		"Errorf":                       wrapped.Error(),
		"Busy":                         Busy(time.Second, "%s", long).Error(),
		"wire":                         ErrorToWire(&Error{Kind: KindInvalid, Text: long}),
		"from the wire":                ErrorFromWire("invalid: " + long).Error(),
		"from the wire without a kind": ErrorFromWire(long).Error(),
	} {
		if len(text) > MaxErrorText+64 {
			t.Errorf("%s: got %d bytes, want at most %d", name, len(text), MaxErrorText+64)
		}
	}
}

func TestResources_EqualComparesEachAmount(t *testing.T) {
	r := reflect.ValueOf(&Resources{}).Elem()
	for i := range r.NumField() {
		if r.Field(i).Kind() != reflect.Int {
			continue
		}
		r.Field(i).SetInt(7)
		changed := r.Interface().(Resources)
		if changed.Equal(Resources{}) || !changed.Equal(changed) {
			t.Errorf("Equal does not compare %s", r.Type().Field(i).Name)
		}
		r.Field(i).SetInt(0)
	}
}

func TestResources_SumsDoNotOverflow(t *testing.T) {
	huge := Resources{
		CPU:      math.MaxInt,
		MemoryMB: math.MaxInt,
		DiskMB:   math.MaxInt,
	}
	sum := huge.Add(huge)
	if sum.CPU != math.MaxInt || sum.MemoryMB != math.MaxInt || sum.DiskMB != math.MaxInt {
		t.Errorf("got the sum %+v, want the largest int in each field", sum)
	}
	less := (Resources{}).Sub(huge).Sub(huge)
	if less.CPU != math.MinInt || less.MemoryMB != math.MinInt || less.DiskMB != math.MinInt {
		t.Errorf("got the difference %+v, want the smallest int in each field", less)
	}
	seven := Resources{CPU: 7, MemoryMB: 8, DiskMB: 9}
	three := Resources{CPU: 3, MemoryMB: 4, DiskMB: 5}
	want := Resources{CPU: 4, MemoryMB: 4, DiskMB: 4}
	if got := seven.Sub(three); !got.Equal(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	g := TaskGroup{
		Tasks:         []*Task{{Resources: &huge}, {Resources: &huge}},
		EphemeralDisk: &EphemeralDisk{SizeMB: math.MaxInt},
	}
	node := Node{
		NodeResources: &NodeResources{
			CPU:    NodeCPUResources{CpuShares: 1000},
			Memory: NodeMemoryResources{MemoryMB: 1000},
		},
	}
	if short := node.Available().Exceeded(g.Ask()); short == "" {
		t.Error("two tasks of 2^63-1 fit on a small node")
	}
}

func TestReschedulePolicy_IsBoundedWithoutAttempts(t *testing.T) {
	for want, p := range map[string]*ReschedulePolicy{
		"delay must not be negative":            {Delay: -1},
		"interval 87600h0m0.000000001s must be": {Interval: MaxInterval + 1},
		"max_delay 87600h0m0.000000001s must":   {MaxDelay: MaxInterval + 1},
	} {
		err := testJob(func(j *Job) { j.TaskGroups[0].ReschedulePolicy = p }).Validate()
		if err == nil || !strings.Contains(err.Error(), "reschedule: "+want) {
			t.Errorf("want %s\n got %v", want, err)
		}
	}
}

func TestNode_ReportsAreBounded(t *testing.T) {
	for want, n := range map[string]*Node{
		"CPU 9223372036854775807 must be from 0 to 100000000 MHz":  {NodeResources: &NodeResources{CPU: NodeCPUResources{CpuShares: math.MaxInt64}}},
		"memory -1 must be from 0 to 1073741824 MiB":               {NodeResources: &NodeResources{Memory: NodeMemoryResources{MemoryMB: -1}}},
		"disk 17179869185 must be from 0 to":                       {NodeResources: &NodeResources{Disk: NodeDiskResources{DiskMB: MaxDiskMB + 1}}},
		"CPU 18446744073709551615 must be from 0 to 100000000 MHz": {ReservedResources: &NodeReservedResources{CPU: NodeReservedCPU{CpuShares: math.MaxUint64}}},
		"4097 ReservableCpuCores; at most 4096 are allowed": {
			NodeResources: &NodeResources{
				CPU: NodeCPUResources{
					ReservableCpuCores: make([]uint16, 4097),
				},
			},
		},
		"Name has 256 bytes": {Name: strings.Repeat("n", 256)},
		"its attributes, meta and drivers have 1048577 bytes; at most 1": {
			Attributes: map[string]string{"k": strings.Repeat("x", MaxNodeBytes)},
		},
	} {
		n.ID = "n1"
		if err := n.Validate(); !IsKind(err, KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %v", want, err)
		}
	}
	overflowing := Node{
		NodeResources: &NodeResources{},
		ReservedResources: &NodeReservedResources{
			CPU:    NodeReservedCPU{CpuShares: math.MaxUint64},
			Memory: NodeMemoryResources{MemoryMB: math.MaxInt64},
		},
	}
	if got := overflowing.Available(); got.CPU > 0 || got.MemoryMB > 0 {
		t.Errorf("a node that reserves more than it has offers %+v", got)
	}
}
