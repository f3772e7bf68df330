import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.connect.events.AvroUtil;
import org.apache.iceberg.connect.events.CommitComplete;
import org.apache.iceberg.connect.events.CommitToTable;
import org.apache.iceberg.connect.events.DataComplete;
import org.apache.iceberg.connect.events.DataWritten;
import org.apache.iceberg.connect.events.Event;
import org.apache.iceberg.connect.events.Payload;
import org.apache.iceberg.connect.events.StartCommit;
import org.apache.iceberg.connect.events.TableReference;
import org.apache.iceberg.connect.events.TopicPartitionOffset;
import org.apache.iceberg.types.Types;

/**
 * Writes messages of the Iceberg connector for Kafka as files, or reads such files and prints them.
 *
 * <p>Classpath: iceberg-kafka-connect-events and iceberg-core 1.11.0 with their dependencies.
 *
 * <pre>
 * java -cp ... ControlMessages.java write FOLDER
 * java -cp ... ControlMessages.java read FILE...
 * </pre>
 */
public class ControlMessages {
  private static final String GROUP = "cg-control-orders";
  private static final UUID COMMIT = UUID.fromString("019bc000-0000-7000-8000-00000000abcd");
  private static final UUID TABLE = UUID.fromString("5c1f0b9e-9a0e-4a50-8f2e-0d6f8e6f7a11");
  private static final OffsetDateTime TIME = OffsetDateTime.parse("2026-01-15T12:00:00.123456Z");

  private static final Schema COLUMNS =
      new Schema(
          Types.NestedField.required(1, "id", Types.LongType.get()),
          Types.NestedField.optional(2, "day", Types.DateType.get()),
          Types.NestedField.optional(3, "at", Types.TimestampType.withZone()),
          Types.NestedField.optional(4, "local", Types.TimestampType.withoutZone()),
          Types.NestedField.optional(5, "name", Types.StringType.get()),
          Types.NestedField.optional(6, "price", Types.DecimalType.of(9, 2)),
          Types.NestedField.optional(7, "key", Types.UUIDType.get()),
          Types.NestedField.optional(8, "raw", Types.BinaryType.get()),
          Types.NestedField.optional(10, "ratio", Types.DoubleType.get()),
          Types.NestedField.optional(11, "small", Types.FloatType.get()),
          Types.NestedField.optional(12, "flag", Types.BooleanType.get()),
          Types.NestedField.optional(13, "clock", Types.TimeType.get()),
          Types.NestedField.optional(14, "number", Types.IntegerType.get()),
          Types.NestedField.optional(15, "1st größe-m²", Types.StringType.get()),
          Types.NestedField.optional(16, "other_price", Types.DecimalType.of(9, 2)));

  public static void main(String[] args) throws Exception {
    if (args[0].equals("write")) {
      write(Path.of(args[1]));
    } else {
      for (String name : Arrays.copyOfRange(args, 1, args.length)) {
        print(AvroUtil.decode(Files.readAllBytes(Path.of(name))));
      }
    }
  }

  private static void write(Path folder) throws Exception {
    TableReference table =
        TableReference.of("lake", TableIdentifier.of("shop", "eu", "orders"), TABLE);
    save(folder, "start_commit", new StartCommit(COMMIT));
    save(
        folder,
        "data_complete",
        new DataComplete(
            COMMIT,
            List.of(
                new TopicPartitionOffset("orders", 0, 1350L, TIME),
                new TopicPartitionOffset("orders", 1, null, null))));
    save(folder, "commit_to_table", new CommitToTable(COMMIT, table, 77L, TIME));
    save(folder, "commit_to_table_empty", new CommitToTable(COMMIT, table, null, null));
    save(folder, "commit_complete", new CommitComplete(COMMIT, TIME));
    save(folder, "commit_complete_empty", new CommitComplete(COMMIT, null));

    PartitionSpec none = PartitionSpec.unpartitioned();
    save(
        folder,
        "data_written_unpartitioned",
        new DataWritten(
            none.partitionType(),
            COMMIT,
            table,
            List.of(data(none, null, true), data(none, null, false)),
            List.of()));

    PartitionSpec day =
        PartitionSpec.builderFor(COLUMNS)
            .withSpecId(3)
            .day("at")
            .bucket("id", 16)
            .truncate("name", 4)
            .build();
    PartitionData values = new PartitionData(day.partitionType());
    values.set(0, 20468);
    values.set(1, 7);
    values.set(2, "abcd");
    PartitionData nulls = new PartitionData(day.partitionType());
    nulls.set(1, 7);
    save(
        folder,
        "data_written_partitioned",
        new DataWritten(
            day.partitionType(),
            COMMIT,
            table,
            List.of(data(day, values, true), data(day, nulls, true)),
            List.of(deletes(day, values))));

    PartitionSpec all =
        PartitionSpec.builderFor(COLUMNS)
            .withSpecId(4)
            .identity("id")
            .identity("day")
            .identity("at")
            .identity("local")
            .identity("name")
            .identity("price")
            .identity("key")
            .identity("raw")
            .identity("ratio")
            .identity("small")
            .identity("flag")
            .identity("clock")
            .identity("number")
            .identity("1st größe-m²")
            .identity("other_price")
            .build();
    PartitionData each = new PartitionData(all.partitionType());
    Object[] given = {
      5L,
      20468,
      1768478400123456L,
      1768478400123457L,
      "ümläut",
      new BigDecimal("-12.34"),
      TABLE,
      ByteBuffer.wrap(new byte[] {1, 2, (byte) 255}),
      2.5d,
      1.25f,
      true,
      3_600_000_000L,
      -4,
      "ß",
      new BigDecimal("0.05")
    };
    for (int at = 0; at < given.length; at++) {
      each.set(at, given[at]);
    }
    save(
        folder,
        "data_written_all_types",
        new DataWritten(
            all.partitionType(), COMMIT, table, List.of(data(all, each, false)), List.of()));
  }

  private static DataFile data(PartitionSpec spec, PartitionData partition, boolean metrics) {
    DataFiles.Builder builder =
        DataFiles.builder(spec)
            .withPath("s3://lake/orders/data/00000-1.parquet")
            .withFormat(FileFormat.PARQUET)
            .withFileSizeInBytes(4321);
    if (partition != null) {
      builder.withPartition(partition);
    }
    if (!metrics) {
      return builder.withRecordCount(12).build();
    }
    Map<Integer, ByteBuffer> lower = new TreeMap<>();
    lower.put(1, ByteBuffer.wrap(new byte[] {1, 0, 0, 0, 0, 0, 0, 0}));
    Map<Integer, ByteBuffer> upper = new TreeMap<>();
    upper.put(1, ByteBuffer.wrap(new byte[] {9, 0, 0, 0, 0, 0, 0, 0}));
    return builder
        .withMetrics(
            new Metrics(
                12L,
                new TreeMap<>(Map.of(1, 100L, 5, 200L)),
                new TreeMap<>(Map.of(1, 12L, 5, 12L)),
                new TreeMap<>(Map.of(1, 0L, 5, 3L)),
                new TreeMap<>(Map.of(10, 1L)),
                lower,
                upper))
        .withSplitOffsets(List.of(4L, 2048L))
        .build();
  }

  private static DeleteFile deletes(PartitionSpec spec, PartitionData partition) {
    return FileMetadata.deleteFileBuilder(spec)
        .ofEqualityDeletes(1, 5)
        .withPath("s3://lake/orders/data/00000-1-deletes.parquet")
        .withFormat(FileFormat.PARQUET)
        .withFileSizeInBytes(99)
        .withPartition(partition)
        .withRecordCount(2)
        .build();
  }

  private static void save(Path folder, String name, Payload payload) throws Exception {
    Files.write(folder.resolve(name + ".bin"), AvroUtil.encode(new Event(GROUP, payload)));
  }

  private static void print(Event event) {
    System.out.printf(
        "%s %s %s %s%n", event.type(), event.id(), event.timestamp(), event.groupId());
    Payload payload = event.payload();
    if (payload instanceof StartCommit) {
      System.out.println(((StartCommit) payload).commitId());
    } else if (payload instanceof DataComplete) {
      System.out.println(((DataComplete) payload).commitId());
      for (TopicPartitionOffset at : ((DataComplete) payload).assignments()) {
        System.out.printf(
            "%s %s %s %s%n", at.topic(), at.partition(), at.offset(), at.timestamp());
      }
    } else if (payload instanceof CommitToTable) {
      CommitToTable commit = (CommitToTable) payload;
      System.out.printf("%s %s%n", commit.commitId(), named(commit.tableReference()));
      System.out.printf("%s %s%n", commit.snapshotId(), commit.validThroughTs());
    } else if (payload instanceof CommitComplete) {
      CommitComplete commit = (CommitComplete) payload;
      System.out.printf("%s %s%n", commit.commitId(), commit.validThroughTs());
    } else {
      DataWritten written = (DataWritten) payload;
      System.out.printf("%s %s%n", written.commitId(), named(written.tableReference()));
      written.dataFiles().forEach(ControlMessages::printFile);
      written.deleteFiles().forEach(ControlMessages::printFile);
    }
  }

  private static String named(TableReference table) {
    return table.catalog() + " " + table.identifier() + " " + table.uuid();
  }

  private static void printFile(ContentFile<?> file) {
    System.out.printf(
        "%s %s %s %d %d %d %s%n",
        file.content(),
        file.format(),
        file.location(),
        file.specId(),
        file.recordCount(),
        file.fileSizeInBytes(),
        file.partition());
    System.out.printf(
        "%s %s %s %s%n",
        sorted(file.columnSizes()),
        sorted(file.valueCounts()),
        sorted(file.nullValueCounts()),
        sorted(file.nanValueCounts()));
    System.out.printf(
        "%s %s %s %s %s%n",
        hexed(file.lowerBounds()),
        hexed(file.upperBounds()),
        file.splitOffsets(),
        file.equalityFieldIds(),
        file.sortOrderId());
  }

  private static Map<Integer, ?> sorted(Map<Integer, ?> map) {
    return map == null ? null : new TreeMap<>(map);
  }

  private static Map<Integer, String> hexed(Map<Integer, ByteBuffer> map) {
    if (map == null) {
      return null;
    }
    Map<Integer, String> text = new TreeMap<>();
    map.forEach(
        (key, value) -> {
          StringBuilder hex = new StringBuilder();
          ByteBuffer rest = value.duplicate();
          while (rest.hasRemaining()) {
            hex.append(String.format("%02x", rest.get()));
          }
          text.put(key, hex.toString());
        });
    return text;
  }
}
