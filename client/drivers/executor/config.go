package executor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/client/drivers/sandbox"
	"berth/internal/spelling"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Command is the `config {}` block of a task of exec and raw_exec.
type Command struct {
	Command string
	Args    []string
	WorkDir string
}

var commandFields = []string{"command", "args", "work_dir"}

// DecodeCommand reads the block. All faults are named, each with its path.
func DecodeCommand(config map[string]any) (*Command, error) {
	c := &Command{}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(config)) {
		var err error
		path := "config." + name
		switch v := config[name]; name {
		case "command":
			c.Command, err = textOf(path, v)
		case "args":
			c.Args, err = textsOf(path, v)
		case "work_dir":
			c.WorkDir, err = textOf(path, v)
		default:
			err = fmt.Errorf("config.%s: %s; %s", structs.Cut(name, structs.MaxQuoted),
				nodecalls.UnknownField, spelling.Hint(name, commandFields))
		}
		if err != nil {
			faults = append(faults, err)
		}
	}

	if _, ok := config["command"]; !ok {
		faults = append(faults, errors.New("config.command: missing; expected the program to run"))
	} else if c.Command == "" && len(faults) == 0 {
		faults = append(faults, errors.New("config.command: empty; expected the program to run"))
	}

	return c, structs.InvalidAll(faults)
}

// textOf converts a job file's value to a string; numbers and booleans read as written.
func textOf(path string, v any) (string, error) {
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case bool, int, int64, uint64:
		s = fmt.Sprint(v)
	case float64:
		s = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return "", fmt.Errorf("%s: expected a string, found %s", path, nodecalls.KindOfValue(v))
	}

	// The kernel ends an argument at a zero byte, and would drop the rest.
	if strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("%s: holds a zero byte", path)
	}
	return s, nil
}

func textsOf(path string, v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: expected a list of strings, found %s", path, nodecalls.KindOfValue(v))
	}
	var out []string
	for i, e := range list {
		s, err := textOf(fmt.Sprintf("%s[%d]", path, i), e)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Environ renders the environment of a task that sees its directories at dirs. bin is the last directory in
// its PATH, after the task's own PATH or defaultPath.
func Environ(
	env map[string]string, dirs driver.Dirs, defaultPath, bin string,
) []string {
	all := map[string]string{"HOME": dirs.Local}
	maps.Copy(all, env)
	for _, prefix := range []string{"BERTH_", "NOMAD_"} { // jobs written for Nomad use the second
		all[prefix+"ALLOC_DIR"] = dirs.AllocShared
		all[prefix+"TASK_DIR"] = dirs.Local
		all[prefix+"SECRETS_DIR"] = dirs.Secrets
	}
	all["PATH"] = cmp.Or(all["PATH"], defaultPath) + ":" + bin
	var list []string
	for k, v := range all {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

// LookupUser finds a user of the host: by name, by number, or as "uid:gid". For "" it returns nil, which
// means the user of the agent. A number without a user is both user and group.
func LookupUser(name string) (*sandbox.User, error) {
	if name == "" {
		return nil, nil
	}

	uid, gid, hasGroup := strings.Cut(name, ":")
	if hasGroup {
		return numericUser(name, uid, gid)
	}

	u, err := user.Lookup(name)
	if err != nil {
		u, err = user.LookupId(name)
	}
	if err != nil {
		found, err := numericUser(name, name, name)
		if err != nil {
			err = structs.Invalidf("user %q: this machine has no such user", name)
		}
		return found, err
	}

	found, err := numericUser(name, u.Uid, u.Gid)
	if err != nil {
		return nil, err
	}

	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("finding the groups of user %q: %w", name, err)
	}

	for _, g := range groups {
		n, err := strconv.ParseUint(g, 10, 32)
		if err == nil {
			found.Groups = append(found.Groups, uint32(n))
		}
	}

	return found, nil
}

func numericUser(name, uid, gid string) (*sandbox.User, error) {
	u, uidErr := strconv.ParseUint(uid, 10, 32)
	g, gidErr := strconv.ParseUint(gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		return nil, structs.Invalidf("user %q: expected a name, a number, or uid:gid", name)
	}
	return &sandbox.User{
		UID: uint32(u),
		GID: uint32(g),
	}, nil
}

// logsOf returns the settings of a task's logs.
func logsOf(cfg *driver.TaskConfig) Logs {
	l := Logs{Disabled: cfg.LogConfig.Disabled}
	l.Dir = cfg.Dirs.Logs
	l.Task = cfg.Task
	l.MaxFiles = cfg.LogConfig.MaxFiles
	if l.MaxFiles <= 0 {
		l.MaxFiles = structs.DefaultLogFiles
	}
	size := cfg.LogConfig.MaxFileSizeMB
	if size <= 0 {
		size = structs.DefaultLogFileSizeMB
	}
	size = min(size, structs.MaxLogFileSizeMB)
	l.MaxFileSize = int64(size) << 20
	return l
}

// limitsOf returns the limits of the cgroup for a task's resources: memory up to MemoryMaxMB if that is set,
// with MemoryMB kept for it.
func limitsOf(r structs.Resources) cgroups.Limits {
	l := cgroups.Limits{
		CPUShares:   r.CPU,
		MemoryBytes: bytesOf(r.MemoryMB),
	}
	if r.MemoryMaxMB > r.MemoryMB {
		l.MemoryReserve = l.MemoryBytes
		l.MemoryBytes = bytesOf(r.MemoryMaxMB)
	}
	return l
}

// bytesOf applies the bound of jobs: an allocation may come from servers that did not check it.
func bytesOf(mib int) int64 {
	mib = min(max(mib, 0), structs.MaxMemoryMB)
	return int64(mib) << 20
}
