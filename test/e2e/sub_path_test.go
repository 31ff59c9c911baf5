package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// folderJob has a task that sees one folder of a volume, and a task before it that sees the whole volume.
func folderJob(name, folder, before string) string {
	return `
job "` + name + `" {
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    volume "data" {
      type            = "csi"
      source          = "shared"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      ownership {
        owner = "nobody"
        mode  = "0750"
      }
    }
    task "before" {
      driver = "exec"
      lifecycle {
        hook = "prestart"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "` + before + `"]
      }
      volume_mount {
        volume      = "data"
        destination = "/whole"
      }
    }
    task "db" {
      driver = "exec"
      user   = "nobody"
      config {
        command = "/bin/sh"
        args = ["-c", "echo fine > /data/f && echo db sees $(ls /data) $(stat -c %U:%a /data); sleep 86400"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
        sub_path    = "` + folder + `"
      }
    }
  }
}
`
}

// A task sees one folder of a volume, which the node makes. It gets none through a link that another task
// made. Files that keep their owners are an event of the tasks.
func TestSubPath_ShowsATaskOneFolderOfAVolume(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.createVolume(volumeFile{id: "shared"})
	const links = "ln -sfn / /whole/link; touch /whole/one; ln -f /whole/one /whole/two; chmod 700 /whole"
	a.must("job", "run", "-detach", a.writeFile("good.hcl", folderJob("good", "pg/${NOMAD_ALLOC_INDEX}", links)))
	a.awaitPrinted(a.awaitRunning("good", 1)[0].ID, "db", "db sees f nobody:750")
	a.must("job", "stop", "good")

	a.must("job", "run", "-detach", a.writeFile("led.hcl", folderJob("led", "link/etc", "true")))
	led := a.awaitAlloc("led")
	eventually(t, "the status tells what the node has not done", func() error {
		out := a.must("alloc", "status", led)
		for _, text := range []string{
			"leads through a symbolic link",
			"Volume data: 2 files keep their owners",
			"2 with several hard links",
		} {
			if !strings.Contains(out, text) {
				return fmt.Errorf("%q is missing in %s", text, out)
			}
		}
		return nil
	})
	for _, job := range []string{"good", "led", "hostpath"} {
		a.must("job", "stop", "-purge", job)
	}
}
