package job

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
)

// tagCommand is berth job tag.
var tagCommand = command.Command{
	Name:     "tag",
	Synopsis: "Name versions of a job, and keep them",
	Sub: []command.Command{
		{
			Name:     "apply",
			Args:     "<job>",
			Synopsis: "Put a tag on a version of a job",
			Help: `
The servers keep a version with a tag until it has none, or until the job is
purged. A version has one tag: another name replaces it. Two versions of a job
cannot have the same name.`,
			Acts: true,
			Flags: []command.Flag{
				tagNameFlag,
				{Name: "description", Kind: command.String, Value: "text", Usage: "A description of the tag"},
				{
					Name:  "version",
					Kind:  command.Number,
					Value: "number",
					Usage: "The version. Default: the current one",
				},
			},
			Run: applyTag,
			Examples: "berth job tag apply -name golden web\n" +
				"berth job tag apply -version 3 -name golden -description \"as tested\" web",
		},
		{
			Name:     "unset",
			Args:     "<job>",
			Synopsis: "Remove a tag from a version of a job",
			Acts:     true,
			Flags:    []command.Flag{tagNameFlag},
			Run:      unsetTag,
			Examples: "berth job tag unset -name golden web",
		},
	},
}

var tagNameFlag = command.Flag{
	Name:  "name",
	Kind:  command.String,
	Value: "name",
	Usage: "The name of the tag",
}

// applyTag puts a tag on a version, by default on the current one.
func applyTag(ctx context.Context, c *command.Call) error {
	name, err := tagName(c)
	if err != nil {
		return err
	}
	id := c.Arg(0)
	version := uint64(c.Number("version"))
	if !c.Given("version") {
		job, _, err := jobs.Get(ctx, c.API, id, nil)
		if err != nil {
			return c.DidYouMean(ctx, "job", id, err)
		}
		version = job.Version
	}

	answer, err := jobs.ApplyTag(ctx, c.API, structs.JobTagRequest{
		JobID:       id,
		JobVersion:  version,
		TagName:     name,
		Description: c.String("description"),
	})
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}
	return c.Report(answer, "Version %d of job %q has the tag %q", version, id, name)
}

func unsetTag(ctx context.Context, c *command.Call) error {
	name, err := tagName(c)
	if err != nil {
		return err
	}
	id := c.Arg(0)
	err = jobs.RemoveTag(ctx, c.API, id, name)
	if err != nil {
		return c.DidYouMean(ctx, "job", id, err)
	}
	return c.Report(command.Changed{"JobID": id, "TagName": name}, "Job %q no longer has the tag %q", id, name)
}

func tagName(c *command.Call) (string, error) {
	name := c.String("name")
	if name == "" {
		return "", command.BadUsage("-name is missing: the name of the tag")
	}
	return name, nil
}

// taggedVersion returns the version of a job that a number or a tag names.
func taggedVersion(ctx context.Context, c *command.Call, id, name string) (uint64, error) {
	version, err := strconv.ParseUint(name, 10, 64)
	if err == nil {
		return version, nil
	}
	answer, err := jobs.ListVersions(ctx, c.API, id, jobs.Diffs{})
	if err != nil {
		return 0, err
	}

	var tags []string
	for _, v := range answer.Versions {
		switch {
		case v.VersionTag == nil:
		case v.VersionTag.Name == name:
			return v.Version, nil
		default:
			tags = append(tags, v.VersionTag.Name)
		}
	}
	if len(tags) == 0 {
		return 0, structs.NotFoundf("no version of job %q has the tag %q, and none has another tag", id, name)
	}
	return 0, structs.NotFoundf("no version of job %q has the tag %q, the tags are %s",
		id, name, strings.Join(tags, ", "))
}

// findVersion returns one of the stored versions of a job.
func findVersion(versions []*structs.Job, id string, version uint64) (*structs.Job, error) {
	var stored []string
	for _, j := range versions {
		if j.Version == version {
			return j, nil
		}
		stored = append(stored, fmt.Sprint(j.Version))
	}
	return nil, structs.NotFoundf("job %q has no version %d, it has %s",
		id, version, strings.Join(stored, ", "))
}

// tagText formats the tag of a version, "" for none.
func tagText(version *structs.Job) string {
	t := version.VersionTag
	if t == nil {
		return ""
	}
	return show.WithDescription(t.Name, t.Description)
}

// The flags of a history that compares each version with one.
var (
	diffVersionFlag = command.Flag{
		Name:  "diff-version",
		Kind:  command.Number,
		Value: "number",
		Usage: "Show the difference of each version to this one",
	}
	diffTagFlag = command.Flag{
		Name:  "diff-tag",
		Kind:  command.String,
		Value: "name",
		Usage: "Show the difference of each version to the one with this tag",
	}
)

// selectedDiffs returns the differences that the flags of a history ask for.
func selectedDiffs(c *command.Call) (jobs.Diffs, error) {
	diffs := jobs.Diffs{On: c.Bool("p"), Tag: c.String(diffTagFlag.Name)}
	if c.Given(diffVersionFlag.Name) {
		diffs.Version = new(uint64(c.Number(diffVersionFlag.Name)))
	}
	kinds := 0
	for _, name := range []string{"p", diffVersionFlag.Name, diffTagFlag.Name, "full"} {
		if c.Given(name) {
			kinds++
		}
	}
	if kinds > 1 {
		return diffs, command.BadUsage("-p, -diff-version, -diff-tag and -full exclude each other")
	}
	return diffs, nil
}
