package boottime

import (
	"os"
	"strings"
)

// ID returns the kernel's ID of this boot of the machine, "" if the kernel does not tell it.
func ID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
