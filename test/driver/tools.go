//go:build tools

// Package driver pins the CSI driver that the end-to-end tests build.
package driver

import _ "github.com/kubernetes-csi/csi-driver-host-path/cmd/hostpathplugin"
