package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"berth/api"
	"berth/api/jobs"
	"berth/cli/command"
	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/executor"
	"berth/internal/conf"
	"berth/internal/spelling"
	"berth/jobspec"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/nodecalls"
	"berth/structs/validate"
)

// FileFlags are the options of the verbs that read a job file.
var FileFlags = []command.Flag{
	{
		Name:  "var",
		Kind:  command.Strings,
		Value: "name=value",
		Usage: "Set a variable of the job file; may be repeated",
	},
	{
		Name:  "var-file",
		Kind:  command.Strings,
		Value: "file",
		Usage: "Set variables of the job file from a file in HCL or JSON; may be repeated",
	},
	{
		Name:  "allow-path",
		Kind:  command.Strings,
		Value: "path",
		Usage: "Let the functions of the job file read this file or folder, too; may be repeated",
	},
}

// ReadFile reads and validates a job file. The command has the options FileFlags.
func ReadFile(c *command.Call, name string) (*structs.Job, error) {
	f, err := readJob(c, name)
	if err != nil {
		return nil, err
	}
	return f.job, nil
}

// readJob reads and validates a job file. It warns of drivers that berth does not have itself.
func readJob(c *command.Call, name string) (*jobSource, error) {
	f, err := parseJob(c, name)
	if err != nil {
		return nil, err
	}
	warnOfDrivers(c, f.job)
	return f, f.fault(f.check())
}

// parseJob reads a job file. The file is HCL or its JSON form, or a job in the JSON of the API, which "job
// inspect" writes. If faults of the file leave a job, jobSource.check returns them.
func parseJob(c *command.Call, name string) (*jobSource, error) {
	f := &jobSource{name: command.ShownName(name)}
	var err error
	f.text, err = c.ReadFile(name)
	if err != nil {
		return nil, err
	}

	f.inputs, err = jobInputs(c, name)
	if err != nil {
		return nil, err
	}

	f.faults = f.parse()
	if f.job == nil {
		return nil, command.InFiles(f.sources(), f.faults)
	}

	f.warnings = validate.JobWarnings(f.job)
	for _, line := range f.warnings {
		located := conf.AsWarnings(f.locate(structs.Invalidf("%s", line)))
		f.ofFile = append(f.ofFile, located...)
	}

	err = conf.Write(c.Err, f.sources(), f.ofFile)
	defaults.Canonicalize(f.job)
	return f, err
}

// warnOfJob shows the warnings of an answer, without the warnings of the file. A warning with a place in the
// file has the same form.
func warnOfJob(c *command.Call, f *jobSource, warnings string) error {
	var others []string
	var placed hcl.Diagnostics
	for line := range strings.SplitSeq(warnings, "\n") {
		if line == "" || slices.Contains(f.warnings, line) {
			continue
		}

		for _, d := range conf.AsWarnings(f.locate(structs.Invalidf("%s", line))) {
			if d.Subject != nil {
				placed = append(placed, d)
			} else {
				others = append(others, line)
			}
		}
	}

	if len(others) > 0 {
		fmt.Fprintf(c.Err, "Warning: %s\n", strings.Join(others, "\n"))
	}

	return conf.Write(c.Err, f.sources(), placed)
}

// jobValidate checks a job file, also against the drivers of the nodes if an agent answers.
func jobValidate(ctx context.Context, c *command.Call) error {
	f, err := parseJob(c, c.Arg(0))
	if err != nil {
		return err
	}

	faults := f.check()
	ctx, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	answer, err := jobs.Validate(ctx, c.API, f.job)
	if err != nil {
		warnOfDrivers(c, f.job)
		fmt.Fprintf(c.Err, "Warning: the drivers of the nodes are not checked: %v\n", err)
		answer = &jobs.Validation{}
	}

	err = warnOfJob(c, f, answer.Warnings)
	if err != nil {
		return err
	}

	for _, line := range answer.ValidationErrors {
		faults = errors.Join(faults, structs.Invalidf("%s", line))
	}

	if faults != nil {
		return f.fault(faults)
	}

	return c.Show(answer, func() error {
		c.Printf("The job %q is valid\n", f.job.ID)
		return nil
	})
}

// validateTimeout bounds the check of the drivers, because a job file can be checked without a cluster.
const validateTimeout = 20 * time.Second

// jobInputs returns the values of variables on the command line and in the environment.
func jobInputs(c *command.Call, name string) (*jobspec.Inputs, error) {
	in := &jobspec.Inputs{
		Dir:  filepath.Dir(name), // the current one for the standard input
		Env:  os.Environ(),
		Vars: c.Strings("var"),
	}

	for _, path := range c.Strings("allow-path") {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}

		in.Allowed = append(in.Allowed, path)
	}

	for _, file := range c.Strings("var-file") {
		src, err := c.ReadFile(file)
		if err != nil {
			return nil, err
		}

		in.Files = append(in.Files, jobspec.VarFile{
			Name:   command.ShownName(file),
			Source: src,
		})
	}

	return in, nil
}

// jobSource is a job file with its inputs and its job.
type jobSource struct {
	name   string // in messages
	text   []byte
	inputs *jobspec.Inputs
	job    *structs.Job
	faults error             // of the file: the job lacks the parts with faults
	locate func(error) error // adds places in the file to faults of the job

	ofFile   hcl.Diagnostics // warnings of the file
	warnings []string        // of the job
}

// check returns the faults of the file and of its job.
func (f *jobSource) check() error {
	return errors.Join(f.faults, validate.Job(f.job), checkDrivers(f.job))
}

// fault returns faults of the file and its job, which are then shown with their places.
func (f *jobSource) fault(faults error) error {
	if faults == nil {
		return nil
	}
	return command.InFiles(f.sources(), f.locate(structs.Invalidf("%w", faults)))
}

// sources returns the text of the files.
func (f *jobSource) sources() map[string][]byte {
	files := map[string][]byte{f.name: f.text}
	for _, v := range f.inputs.Files {
		files[v.Name] = v.Source
	}
	return files
}

// submission returns the source that the servers store with the job. It leaves out variables of the
// environment, which may have values that are for this user alone.
func (f *jobSource) submission() *structs.JobSubmission {
	s := &structs.JobSubmission{
		Source: string(f.text),
		Format: structs.FormatHCL2,
	}

	if bytes.HasPrefix(bytes.TrimSpace(f.text), []byte("{")) {
		s.Format = structs.FormatJSON
	}

	for _, v := range f.inputs.Vars {
		name, value, _ := strings.Cut(v, "=")
		if s.VariableFlags == nil {
			s.VariableFlags = map[string]string{}
		}

		s.VariableFlags[name] = value
	}

	for _, file := range f.inputs.Files {
		s.Variables += string(file.Source) + "\n"
	}

	return s
}

// parse reads the job. It may return an error and a job, too.
func (f *jobSource) parse() error {
	inspected := apiJob(f.text)
	if inspected == nil {
		file, err := jobspec.ReadJob(f.name, f.text, f.inputs)
		if file != nil {
			f.job = file.Job
			f.locate = file.Locate
			f.ofFile = file.Warnings
		}

		if err != nil && isVolume(f.name, f.text) {
			return structs.Invalidf("%s is the file of a volume and not of a job; to create the volume: %s",
				f.name, structs.CommandLine("", "volume create", f.name))
		}

		return err
	}

	if len(f.inputs.Vars)+len(f.inputs.Files) > 0 {
		return structs.Invalidf("%s is a job without variables; expected no -var and no -var-file",
			f.name)
	}

	src := padToPosition(f.text, inspected)
	job, warnings, err := api.DecodeJob(src)
	locate, faults := command.PlaceJSON(f.name, src, err)
	if locate == nil {
		return faults
	}

	f.job = job
	f.locate = locate
	if len(warnings) > 0 {
		f.ofFile = conf.AsWarnings(structs.Invalidf("%s", strings.Join(warnings, "\n")))
	}

	return faults
}

// isVolume reports whether a file describes a volume.
func isVolume(name string, text []byte) bool {
	f, _ := jobspec.ReadVolume(name, text)
	return f != nil && f.Content.PluginID != ""
}

// padToPosition returns a part of a file after blanks, so that it has the same position as in the file.
func padToPosition(src, part []byte) []byte {
	at := bytes.Index(src, part)
	padded := bytes.Repeat([]byte(" "), at)
	for i, c := range src[:at] {
		if c == '\n' {
			padded[i] = c
		}
	}
	return append(padded, part...)
}

// apiJob returns the job of a file in the JSON of the API, alone or as the value of "Job". It returns nil for
// another file.
func apiJob(src []byte) []byte {
	var outer map[string]json.RawMessage
	if !bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) ||
		json.Unmarshal(src, &outer) != nil {
		return nil
	}

	if inner := outer["Job"]; inner != nil {
		return inner
	}

	if outer["TaskGroups"] != nil || outer["ID"] != nil {
		return src
	}

	return nil
}

// builtInDrivers has the check of a task's config for each built-in driver.
var builtInDrivers = map[string]func(config map[string]any, g *structs.TaskGroup) error{
	"exec":     checkCommand,
	"raw_exec": checkCommand,
	"docker":   checkContainer,
}

func checkCommand(config map[string]any, _ *structs.TaskGroup) error {
	_, err := executor.DecodeCommand(config)
	return err
}

func checkContainer(config map[string]any, g *structs.TaskGroup) error {
	task, err := taskconfig.Check(config)
	if err != nil {
		return err
	}

	task.Ports = slices.DeleteFunc(task.Ports, func(label string) bool {
		return nodecalls.HasReference(label) // known on the node only
	})

	var labels []string
	for _, p := range g.PortDemands() {
		labels = append(labels, p.Label)
	}

	return task.CheckPorts(labels)
}

// checkDrivers validates the config of tasks with a built-in driver.
func checkDrivers(job *structs.Job) error {
	var faults []error
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			check := builtInDrivers[t.Driver]
			if check == nil {
				continue
			}

			err := check(t.Config, g)
			if err == nil {
				continue
			}

			for line := range strings.SplitSeq(err.Error(), "\n") {
				faults = append(faults, fmt.Errorf("job %q: group %q: task %q: config: %s",
					job.ID, g.Name, t.Name, strings.TrimPrefix(line, "config.")))
			}
		}
	}

	return errors.Join(faults...)
}

// warnOfDrivers warns of other drivers, because a node may have them as plugins.
func warnOfDrivers(c *command.Call, job *structs.Job) {
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			if builtInDrivers[t.Driver] == nil {
				warnOfDriver(c, t)
			}
		}
	}
}

func warnOfDriver(c *command.Call, t *structs.Task) {
	hint := "a node must have it as a plugin"
	near := spelling.Closest(t.Driver, slices.Sorted(maps.Keys(builtInDrivers)))
	if near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	fmt.Fprintf(c.Err, "Warning: task %q: berth has no driver %q of its own; %s\n",
		t.Name, t.Driver, hint)
}
