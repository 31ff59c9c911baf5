package job

import (
	"context"
	"fmt"

	"berth/api/jobs"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
)

var jobHistoryCommand = command.Command{
	Name:     "history",
	Args:     "<job>",
	Synopsis: "Show the stored versions of a job",
	Help: `
Shows the stored versions, the newest first. The servers keep the current one,
the six before it, the newest stable one, and each that an allocation uses or
that has a tag.`,
	Renders: true,
	Flags: []command.Flag{
		{Name: "p", Usage: "Show the difference of each version to the one before it"},
		diffVersionFlag,
		diffTagFlag,
		{Name: "full", Usage: "Show the complete job of each version"},
		{Name: "version", Kind: command.Number, Value: "number", Usage: "Show this version only"},
	},
	Run: jobHistory,
	Examples: "berth job history web\n" +
		"berth job history -p -version 3 web\n" +
		"berth job history -diff-tag golden web",
}

// jobHistory shows the versions of a job that the servers have kept.
func jobHistory(ctx context.Context, c *command.Call) error {
	diffs, err := selectedDiffs(c)
	if err != nil {
		return err
	}

	id, err := c.Resolve(ctx, "job", c.Arg(0))
	if err != nil {
		return err
	}

	answer, err := jobs.ListVersions(ctx, c.API, id, diffs)
	if err != nil {
		return err
	}

	if c.Given("version") {
		answer, err = oneVersion(answer, id, uint64(c.Number("version")))
		if err != nil {
			return err
		}
	}

	return c.Show(answer, func() error {
		return printHistory(c, answer)
	})
}

// oneVersion returns the part of an answer on one version.
func oneVersion(all *jobs.VersionList, id string, version uint64) (*jobs.VersionList, error) {
	job, err := findVersion(all.Versions, id, version)
	if err != nil {
		return nil, err
	}

	one := &jobs.VersionList{Versions: []*structs.Job{job}}
	for i, j := range all.Versions {
		if j == job && i < len(all.Diffs) {
			one.Diffs = all.Diffs[i : i+1]
		}
	}

	return one, nil
}

func printHistory(c *command.Call, answer *jobs.VersionList) error {
	for i, j := range answer.Versions {
		if i > 0 {
			c.Printf("\n")
		}

		if c.Bool("full") {
			err := command.WriteJSON(c.Out, j)
			if err != nil {
				return err
			}

			continue
		}

		c.Pairs(
			"Version", fmt.Sprint(j.Version),
			"Stable", show.YesNo(j.Stable),
			"Stopped", show.YesNo(j.Stop),
			"Submitted", show.Nanos(j.SubmitTime),
			"Tag", tagText(j),
		)

		if i < len(answer.Diffs) {
			diffPrinter{c, false}.printJobDiff(answer.Diffs[i])
		}
	}

	return nil
}
