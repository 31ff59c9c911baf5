package e2e

import "testing"

// The shipped driver announces SINGLE_NODE_MULTI_WRITER: two allocations of a node write one volume at once.
func TestAccessMode_SeveralAllocationsOfANodeShareAVolume(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "class", "apply", a.writeFile("class.hcl", `
name       = "fast"
plugin_id  = "hostpath"
parameters = { type = "image", provisioning = "thin" }
`))
	a.must("job", "run", "-detach", a.writeFile("both.hcl", `
job "both" {
  group "g" {
    count = 2
    volume "data" {
      type        = "csi"
      class       = "fast"
      size        = "32MiB"
      access_mode = "single-node-multi-writer"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<EOF
touch /data/$NOMAD_ALLOC_INDEX
until [ -e /data/0 ] && [ -e /data/1 ]; do sleep 0.1; done
echo both wrote
sleep 86400
EOF
        ]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
`))
	for _, alloc := range a.awaitRunning("both", 2) {
		a.awaitOutput(alloc.ID, "both wrote")
	}
	for _, job := range []string{"both", "hostpath"} {
		a.must("job", "stop", "-purge", job)
	}
}
