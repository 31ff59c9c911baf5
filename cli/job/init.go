package job

import (
	"cmp"
	"context"

	"berth/cli/command"
)

var jobInitCommand = command.Command{
	Name:     "init",
	Args:     "[file]",
	Synopsis: "Write an example of a job file",
	Help: `
Writes a job file that runs as it is, with comments on the parts that users
change most. The default name is job.hcl. An existing file is not replaced.`,
	Flags: []command.Flag{
		{Name: "short", Usage: "Leave out the comments and what is not needed"},
	},
	Local: true,
	Run:   jobInit,
	Examples: "berth job init\n" +
		"berth job init -short web.hcl",
}

// jobInit writes the example to a new file.
func jobInit(_ context.Context, c *command.Call) error {
	text := exampleJob
	if c.Bool("short") {
		text = shortExampleJob
	}
	return c.WriteExample(cmp.Or(c.Arg(0), "job.hcl"), text)
}

// exampleJob needs no volume, no network and no container engine, so that it runs on each node of Linux.
const exampleJob = `# A job for "berth job run". To see what a change would do: berth job plan.

job "example" {
  # service runs until it is stopped, and batch to its end. system and sysbatch
  # run on every node that fits.
  type = "service"

  # The nodes of these datacenters only. Default: all.
  #datacenters = ["dc1"]

  # Nodes with this property only. "berth node status NODE" lists properties.
  #constraint {
  #  attribute = "${attr.kernel.name}"
  #  value     = "linux"
  #}

  # A change replaces so many allocations at a time. Each has to be healthy for
  # a while, and a version that fails is replaced by the last stable one.
  update {
    max_parallel     = 1
    min_healthy_time = "5s"
    auto_revert      = true
  }

  # The tasks of a group run on one node. Each instance is an allocation.
  group "example" {
    count = 1

    # A volume, for the task below. It has to exist: berth volume init.
    #volume "data" {
    #  type            = "csi"
    #  source          = "data"
    #  access_mode     = "single-node-writer"
    #  attachment_mode = "file-system"
    #}

    # A port of the node. The task finds it in NOMAD_PORT_http.
    #network {
    #  port "http" {}
    #}

    # How often a task is started again after it has ended.
    restart {
      attempts = 3
      interval = "10m"
      delay    = "5s"
      mode     = "fail"
    }

    task "example" {
      # exec runs a program in a file system of its own, docker a container.
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do echo \"$GREETING\"; sleep 10; done"]
      }

      env {
        GREETING = "it runs"
      }

      #volume_mount {
      #  volume      = "data"
      #  destination = "/data"
      #}

      resources {
        cpu    = 50 # MHz
        memory = 32 # MB
      }
    }
  }
}
`

const shortExampleJob = `job "example" {
  group "example" {
    task "example" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do echo it runs; sleep 10; done"]
      }
    }
  }
}
`
