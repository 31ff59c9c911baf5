package hostconfig

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/moby/moby/api/types/container"

	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/structs"
)

// maxProfile bounds a file of system calls.
const maxProfile = 1 << 20

// AddSecurity adds the security options. The daemon takes a list of system calls as text, and the job names a
// file.
func AddSecurity(h *container.HostConfig, cfg *driver.TaskConfig, want *taskconfig.Task) error {
	for _, option := range want.SecurityOpt {
		option = strings.Replace(option, ":", "=", 1)
		name, value, _ := strings.Cut(option, "=")
		switch {
		case name == "systempaths" && value == "unconfined":
			// An empty list is none. Nil would be the daemon's usual paths.
			h.MaskedPaths = []string{}
			h.ReadonlyPaths = []string{}
			continue
		case name == "seccomp" && value != "unconfined" && value != "builtin":
			text, err := readProfile(cfg.Dirs.Task, value)
			if err != nil {
				return err
			}

			option = "seccomp=" + text
		}

		h.SecurityOpt = append(h.SecurityOpt, option)
	}

	return nil
}

// readProfile reads a file in the directory of the task, and follows no link out of it.
func readProfile(dir, path string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()

	// An open of a pipe would wait for its writer.
	info, err := root.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a plain file", path)
	}
	if err != nil {
		return "", structs.Preconditionf("config.security_opt: %w", err)
	}

	f, err := root.Open(path)
	if err != nil {
		return "", structs.Preconditionf("config.security_opt: %w", err)
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxProfile+1))
	if err == nil && len(text) > maxProfile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxProfile)
	}
	if err != nil {
		return "", structs.Preconditionf("config.security_opt: %w", err)
	}

	return string(text), nil
}
