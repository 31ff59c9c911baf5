package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHost_FingerprintsThisMachine(t *testing.T) {
	f, err := ReadFacts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if f.Resources.CPU.CpuShares <= 0 ||
		f.Resources.Memory.MemoryMB <= 0 || f.Resources.Disk.DiskMB <= 0 ||
		f.Hostname == "" {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{"cpu.arch", "cpu.numcores", "cpu.frequency", "memory.totalbytes",
		"kernel.name", "kernel.version",
		"kernel.arch", "os.cgroups.version", "unique.hostname", "unique.storage.bytestotal"} {
		if f.Attributes[name] == "" {
			t.Errorf("attribute %s is missing", name)
		}
	}
}

// writeTree writes files below a new directory.
func writeTree(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestHost_FingerprintsOtherMachines(t *testing.T) {
	const cpu = "processor\t: 0\nmodel name\t: Fast CPU @ 2.50GHz\ncpu MHz\t\t: 2493.75\n\nprocessor\t: 1\ncpu MHz\t\t: 1200.000\n"
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  map[string]string
		fault string
	}{
		{"what the kernel says", map[string]string{"proc/cpuinfo": cpu,
			"proc/meminfo":   "MemTotal:  2048 kB\nMemFree: 1 kB\n",
			"etc/os-release": "# about\nID=debian\nVERSION_ID=\"12\"\n"},
			map[string]string{"cpu.modelname": "Fast CPU @ 2.50GHz", "cpu.frequency": "2500",
				"memory.totalbytes": "2097152", "os.name": "debian", "os.version": "12"}, ""},
		{"the highest frequency is the one that counts", map[string]string{"proc/cpuinfo": cpu,
			"proc/meminfo": "MemTotal: 2048 kB\n",
			"sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3600000\n"},
			map[string]string{"cpu.frequency": "3600", "os.name": ""}, ""},
		{"no frequency at all", map[string]string{"proc/cpuinfo": "processor: 0\n",
			"proc/meminfo": "MemTotal: 2048 kB\n"},
			map[string]string{"cpu.frequency": "1000", "cpu.modelname": ""}, ""},
		{"no memory", map[string]string{"proc/cpuinfo": cpu, "proc/meminfo": "nonsense\n"}, nil, "MemTotal"},
		{"nothing", map[string]string{"x": ""}, nil, "fingerprinting the processors"},
	} {
		f, err := readHost(writeTree(t, tc.files), t.TempDir())
		if tc.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%s: got %v, want an error with %q", tc.name, err, tc.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		for k, want := range tc.want {
			if got, ok := f.Attributes[k]; got != want || ok != (want != "") {
				t.Errorf("%s: %s = %q, want %q", tc.name, k, got, want)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("model name : x\ncpu MHz : 1e309\ncpu MHz: -1\n")
	f.Add("ID=\"\nA\n=\n")
	f.Fuzz(func(t *testing.T, s string) {
		if _, mhz := parseCPU(s); mhz < 0 {
			t.Errorf("%d MHz", mhz)
		}
		parseRelease(s)
	})
}
