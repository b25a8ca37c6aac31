"""Models of the paper's figures that are not families of Boxcar, as graph text (docs/own-model.md)."""


class Writer:
    def __init__(self, name):
        self.name, self.lines, self.layer, self.at_layer = name, [], -1, ""

    def next_layer(self):
        """The next op begins a layer."""
        self.layer += 1
        self.at_layer = f" layer={self.layer}"

    def op(self, name, call, attributes=""):
        self.lines.append(f"%{name} = {call}" + (f" {{{attributes}}}" if attributes else "") + self.at_layer)
        self.at_layer = ""
        return name

    def source(self, name, kind, dtype, *shape, attributes=""):
        extents = f"[{', '.join(map(str, shape))}]" if shape else ""
        self.lines.append(f"%{name}: {dtype}{extents} = {kind}()" + (f" {{{attributes}}}" if attributes else ""))
        return name

    def weight(self, name, *shape):
        return self.source(name, "parameter", "float32", *shape)

    def conv(self, name, x, size, to, kernel, stride=1, groups=1, padding=None):
        self.weight(f"{name}.weight", to, size // groups, kernel, kernel)
        padding = kernel // 2 if padding is None else padding
        return self.op(name, f"conv2d(%{x}, %{name}.weight)", f"stride={stride}, padding={padding}, groups={groups}")

    def norm(self, name, x, size):
        """With each device's own statistics, as these runs have it."""
        self.weight(f"{name}.gamma", size), self.weight(f"{name}.beta", size)
        return self.op(name, f"batch_norm(%{x}, %{name}.gamma, %{name}.beta)", "local=true")

    def prelu(self, name, x, size):
        self.weight(f"{name}.slope", size, 1, 1)
        self.op(f"{name}.plus", f"relu(%{x})")
        self.op(f"{name}.negated", f"neg(%{x})")
        self.op(f"{name}.minus", f"relu(%{name}.negated)")
        self.op(f"{name}.part", f"mul(%{name}.minus, %{name}.slope)")
        return self.op(name, f"sub(%{name}.plus, %{name}.part)")

    def matmul(self, name, x, size, to):
        self.weight(f"{name}.weight", size, to)
        return self.op(name, f"matmul(%{x}, %{name}.weight)")

    def text(self):
        return "\n".join([f"graph {self.name} layers={self.layer + 1}", *self.lines]) + "\n"


def wide_deep(vocabulary, width):
    """The authors' Wide & Deep: 2 and 26 categories, 13 numbers, seven layers of 1,024 with dropout (scripts of
    github.com/Oneflow-Inc/OneFlow-Benchmark ClickThroughRate). The logistic loss is a cross entropy with a class whose logit is always 0."""
    w = Writer("wide_deep")
    w.source("wide.ids", "input", "int64", "batch", 2), w.source("deep.ids", "input", "int64", "batch", 26)
    w.source("numbers", "input", "float32", "batch", 13), w.source("clicks", "input", "int64", "batch")
    w.next_layer()
    w.weight("wide.weight", vocabulary, 1)
    w.op("wide.rows", "embedding(%wide.weight, %wide.ids)")
    w.op("wide", "reduce_sum(%wide.rows)", "axes=[1]")
    w.weight("deep.weight", vocabulary, width)
    w.op("deep.rows", "embedding(%deep.weight, %deep.ids)")
    w.op("deep.flat", "reshape(%deep.rows)", f"shape=[batch, {26 * width}]")
    x, size = w.op("joined", "concat(%deep.flat, %numbers)", "axis=1"), 26 * width + 13
    for i in range(7):
        w.next_layer()
        w.matmul(f"fc{i}", x, size, 1024)
        w.weight(f"fc{i}.bias", 1024)
        w.op(f"fc{i}.sum", f"add(%fc{i}, %fc{i}.bias)")
        w.op(f"fc{i}.relu", f"relu(%fc{i}.sum)")
        x, size = w.op(f"fc{i}.out", f"dropout(%fc{i}.relu)", "p=0.5"), 1024
    w.matmul("head", x, 1024, 1)
    w.op("logit", "add(%head, %wide)")
    w.op("nothing", "scale(%logit)", "factor=0.0")
    w.op("logits", "concat(%nothing, %logit)", "axis=1")
    w.op("losses", "cross_entropy(%logits, %clicks)")
    w.op("loss", "reduce_mean(%losses)", "axes=[0]")
    return w.text()


def begin_face(name):
    w = Writer(name)
    w.source("images", "input", "float32", "batch", 3, 112, 112), w.source("labels", "input", "int64", "batch")
    w.next_layer()
    return w


def margin_softmax(w, x, size, classes, drawn_by=0):
    """Cosines of the normalised features with the normalised class weights, a margin for the sample's own class, and a cross entropy in parts that
    may be split by class. The margin is CosFace's; ArcFace's has the same bytes. With `drawn_by` devices, each draws a tenth of its classes."""
    w.source("unit", "constant", "float32", size, attributes=f"value={size ** -0.5}")
    w.op("direction", f"rms_norm(%{x}, %unit)")
    w.weight("fc7.weight", classes, size)
    weight, labels = "fc7.weight", "labels"
    if drawn_by:
        samples = classes // drawn_by // 10 * drawn_by
        draw = f"samples={samples}, parts={drawn_by}"
        weight = w.op("fc7.drawn", "sample_rows(%fc7.weight, %labels)", draw)
        labels = w.op("places", "sample_labels(%labels)", f"classes={classes}, {draw}")
        classes = samples
    w.op("fc7.direction", f"rms_norm(%{weight}, %unit)")
    w.op("cosine", "matmul(%direction, %fc7.direction)", "transpose_b=true")
    w.op("own", f"one_hot(%{labels})", f"depth={classes}")
    w.op("margin", "scale(%own)", "factor=0.5")
    w.op("moved", "sub(%cosine, %margin)")
    w.op("logits", "scale(%moved)", "factor=64.0")
    w.op("largest", "reduce_max(%logits)", "axes=[-1]")
    w.op("sum", "sum_exp(%logits, %largest)")
    w.op("picked", f"pick(%logits, %{labels})")
    w.op("losses", "nll(%largest, %sum, %picked)")
    w.op("loss", "reduce_mean(%losses)", "axes=[0]")
    return w.text()


def normalised(w, x, size):
    """Batch norm of features [batch, size]."""
    w.op("features.image", f"reshape(%{x})", f"shape=[batch, {size}, 1, 1]")
    w.norm("features.norm", "features.image", size)
    return w.op("features", "reshape(%features.norm)", f"shape=[batch, {size}]")


def resnet100(classes, drawn_by=0):
    """ResNet-100 of github.com/deepinsight/insightface (recognition, fresnet): improved residual units, 49 of them, features of 512."""
    w = begin_face("resnet100")
    x = w.prelu("stem.out", w.norm("stem.norm", w.conv("stem", "images", 3, 64, 3), 64), 64)
    size = 64
    for group, (count, to) in enumerate(((3, 64), (13, 128), (30, 256), (3, 512))):
        for unit in range(count):
            w.next_layer()
            name, stride = f"g{group}u{unit}", 2 if unit == 0 else 1
            y = w.conv(f"{name}.conv1", w.norm(f"{name}.norm1", x, size), size, to, 3)
            y = w.prelu(f"{name}.act", w.norm(f"{name}.norm2", y, to), to)
            y = w.norm(f"{name}.norm3", w.conv(f"{name}.conv2", y, to, to, 3, stride), to)
            shortcut = x if unit else w.norm(f"{name}.normx", w.conv(f"{name}.convx", x, size, to, 1, stride), to)
            x, size = w.op(name, f"add(%{y}, %{shortcut})"), to
    w.next_layer()
    w.op("flat", f"reshape(%{w.norm('last', x, size)})", f"shape=[batch, {size * 49}]")
    w.op("dropped", "dropout(%flat)", "p=0.4")
    return margin_softmax(w, normalised(w, w.matmul("fc1", "dropped", size * 49, 512), 512), 512, classes, drawn_by)


def mobile_face(classes, drawn_by=0):
    """MobileFaceNet (Chen et al., arXiv 1804.07573) as insightface's y1 has it: features of 128."""
    w = begin_face("mobile_face")

    def step(name, x, size, to, kernel=1, stride=1, groups=1, padding=None, active=True):
        y = w.norm(f"{name}.norm", w.conv(name, x, size, to, kernel, stride, groups, padding), to)
        return w.prelu(f"{name}.act", y, to) if active else y

    x = step("stem", "images", 3, 64, 3, 2)
    x, size = step("stem2", x, 64, 64, 3, 1, 64), 64
    for group, (count, to, inside, first_inside) in enumerate(((4, 64, 128, 128), (6, 128, 256, 256), (2, 128, 256, 512))):
        for unit in range(count + 1):
            w.next_layer()
            name, stride, wide = f"g{group}u{unit}", 1 if unit else 2, inside if unit else first_inside
            y = step(f"{name}.sep", x, size, wide)
            y = step(f"{name}.dw", y, wide, wide, 3, stride, wide)
            y = step(f"{name}.proj", y, wide, to, active=False)
            x, size = (w.op(name, f"add(%{x}, %{y})") if unit else y), to
    w.next_layer()
    x = step("sep", x, size, 512)
    x = step("global", x, 512, 512, 7, 1, 512, 0, active=False)
    w.op("flat", f"reshape(%{x})", "shape=[batch, 512]")
    return margin_softmax(w, normalised(w, w.matmul("fc1", "flat", 512, 128), 128), 128, classes, drawn_by)
