// Package csisanity runs csi-sanity, the suite of the authors of CSI, against the hostpath driver of the
// built binary (BERTH_BIN), for each kind of volume.
package csisanity
