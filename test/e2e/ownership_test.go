package e2e

import "testing"

// A task without rights of root writes to a fresh volume, a directory and a file system of its own.
func TestOwnership_LetsATaskWithoutRightsWriteToAFreshVolume(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	for id, image := range map[string]bool{"folder": false, "image": true} {
		a.createVolume(volumeFile{id: id, image: image})
		a.must("job", "run", "-detach", a.writeFile(id+".hcl", unprivilegedJob(id, `source = "`+id+`"`)))
		a.awaitOutput(a.awaitRunning(id, 1)[0].ID, unprivilegedOutput)
	}
	for _, job := range []string{"folder", "image", "hostpath"} {
		a.must("job", "stop", "-purge", job)
	}
}

// unprivilegedOutput is the output of the task of unprivilegedJob once it has written to its volume.
const unprivilegedOutput = "written: fine nobody:700"

// unprivilegedJob is a job whose task runs as nobody and writes to a volume, which the line volume names by
// its source or asks for by its class.
func unprivilegedJob(id, volume string) string {
	return `
job "` + id + `" {
  group "g" {
    volume "data" {
      type            = "csi"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      ` + volume + `
      ownership {
        owner = "nobody"
        mode  = "0700"
      }
    }
    task "t" {
      driver = "exec"
      user   = "nobody"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo fine > /data/f && echo written: $(cat /data/f) $(stat -c %U:%a /data); sleep 86400"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
`
}
