// The names of descriptions, for headers that pass them on.
#pragma once

namespace boxcar::backends {

struct Cluster;
struct CollectiveModel;
struct ConvolutionModel;
struct DeviceProfile;
struct Fabric;
struct MatmulModel;
struct Node;
struct Framework;

}  // namespace boxcar::backends
